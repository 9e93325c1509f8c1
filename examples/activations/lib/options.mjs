import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

export const usage = `Usage: node index.mjs [options]

  --dir DIR      where everything is kept (default: .holdfast-demo in the current directory)
  --store fs     which object store holds the packs: fs, a directory
  --wav FILE     another recording: 16 kHz, mono, 16 bit (default: speech.wav beside this program)
  --realtime     feed the recording at the speed at which it is spoken, so that there is time to press Ctrl-C
  --help         this text
`;

/** Reads the command line; a wrong one is an error whose message says what is allowed. */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      dir: { type: "string", default: ".holdfast-demo" },
      store: { type: "string", default: "fs" },
      wav: { type: "string", default: fileURLToPath(new URL("../speech.wav", import.meta.url)) },
      realtime: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.store === "s3")
    throw new Error("--store s3 is not there yet; this version keeps packs in a directory: use --store fs");
  if (values.store !== "fs") throw new Error(`--store ${values.store} is not known; use --store fs`);
  return { ...values, dir: resolve(values.dir) };
}
