// Every test file begins with: vi.mock("@aws-sdk/client-s3", async () => (await import("../support/sdk.js")).sdk)
// The test runner starts Node with the condition "module", under which the SDK names a build for bundlers that Node cannot load.
import Module, { createRequire } from "node:module";
import type * as Sdk from "@aws-sdk/client-s3";

function asNodeLoads(name: string): unknown {
  const loader = Module as unknown as { _resolveFilename(...request: unknown[]): string };
  const { _resolveFilename } = loader;
  loader._resolveFilename = (...request) => _resolveFilename.apply(loader, request).replace("/dist-es/", "/dist-cjs/");
  try {
    return createRequire(import.meta.url)(name);
  } finally {
    loader._resolveFilename = _resolveFilename;
  }
}

// The SDK tells of Node 20's end once, on the console.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] = "true";

/** The SDK as Node loads it by itself. */
export const sdk = asNodeLoads("@aws-sdk/client-s3") as typeof Sdk;
