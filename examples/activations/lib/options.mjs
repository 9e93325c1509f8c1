import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

export const usage = `Usage: node index.mjs [options]

  --dir DIR      where everything is kept (default: .holdfast-demo in the current directory; .holdfast-demo-s3, -gcs)
  --store STORE  which object store holds the packs: fs, a directory (default); s3, a bucket that HOLDFAST_S3_URL, _BUCKET, _REGION,
                 _ACCESS_KEY_ID and _SECRET_ACCESS_KEY name (npm run demo -- --store s3 starts a server); or gcs, a bucket
                 that HOLDFAST_GCS_BUCKET names, at Google or where STORAGE_EMULATOR_HOST says (npm run demo -- --store
                 gcs starts a fake, which keeps nothing after the run)
  --wav FILE     another recording: 16 kHz, mono, 16 bit (default: speech.wav beside this program)
  --realtime     feed the recording at the speed at which it is spoken, so that there is time to press Ctrl-C
  --help         this text
`;

/** Reads the command line; a wrong one is an error whose message says what is allowed. */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      dir: { type: "string" },
      store: { type: "string", default: "fs" },
      wav: { type: "string", default: fileURLToPath(new URL("../speech.wav", import.meta.url)) },
      realtime: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (!["fs", "s3", "gcs"].includes(values.store))
    throw new Error(`--store ${values.store} is not known; use --store fs, --store s3 or --store gcs`);
  // One folder per store: its catalog knows the packs of one.
  const dir = values.dir ?? (values.store === "fs" ? ".holdfast-demo" : `.holdfast-demo-${values.store}`);
  return { ...values, dir: resolve(dir) };
}
