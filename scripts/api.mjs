// The reviewed API report of each package: api/<package>[.<subpath>].api.md, made from dist's declarations.
// Without --write it fails when a report differs from the committed one, so that every change of the public
// surface shows in a diff that a person reads.
import { Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "./shell.mjs";
import { packages } from "./workspace.mjs";

const write = process.argv.includes("--write");
const reportFolder = join(root, "api");
mkdirSync(reportFolder, { recursive: true });

function entries({ name, folder, manifest }) {
  return Object.entries(manifest.exports)
    .filter(([, target]) => typeof target === "object" && target.types)
    .map(([subpath, target]) => ({
      report: [name.split("/")[1], ...(subpath === "." ? [] : [subpath.slice(2).replaceAll("/", ".")])].join("."),
      declarations: join(folder, target.types),
      folder,
    }));
}

function extract({ report, declarations, folder }) {
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: folder,
      mainEntryPointFilePath: declarations,
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: "ES2022",
            module: "NodeNext",
            moduleResolution: "NodeNext",
            lib: ["ES2023", "ESNext.Disposable"],
            types: ["node"],
            skipLibCheck: true,
            strict: true,
          },
          files: [declarations],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: `${report}.api.md`,
        reportFolder,
        reportTempFolder: join(root, "temp", "api"),
        includeForgottenExports: true,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: "none" } },
        extractorMessageReporting: { default: { logLevel: "none" } },
        tsdocMessageReporting: { default: { logLevel: "none" } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(folder, "package.json"),
  });
  return Extractor.invoke(config, {
    localBuild: write,
    showVerboseMessages: false,
    messageCallback: (message) => {
      message.handled = message.logLevel !== ExtractorLogLevel.Error;
    },
  });
}

let failed = 0;
for (const entry of packages().flatMap(entries)) {
  const result = extract(entry);
  if (result.apiReportChanged && !write) {
    failed += 1;
    console.log(
      `api/${entry.report}.api.md is not what dist declares: run \`npm run api -- --write\`, read the diff, commit it`,
    );
  }
}
process.exitCode = failed > 0 ? 1 : 0;
