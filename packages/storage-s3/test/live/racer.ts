// A process of the race: creates the keys that it is told on standard input, each after a word of its own, and says how each ended.
// Its way to the server is a proxy in this process that loses every fifth answer: the connection ends where it would have come.
import { connect, createServer, type AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { createLimiter, putVerified } from "@holdfast/object-store";
import { s3Store } from "@holdfast/storage-s3";

const { env, pid } = process;
const [bucket = ""] = process.argv.slice(2);
const { signal } = new AbortController();
const upstream = new URL(env["HOLDFAST_S3_URL"] ?? "");
let answers = 0;
let lost = 0;

const proxy = createServer((near) => {
  const far = connect(Number(upstream.port), upstream.hostname);
  near.pipe(far);
  far.on("data", (bytes) => {
    // Answers to puts carry an etag; those to heads a length other than 0.
    if (/^HTTP\/1.1 200/.test(bytes.toString("latin1")) && ++answers % 5 === 0) {
      lost++;
      near.destroy();
    } else near.write(bytes);
  });
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const) {
    one.on("error", () => undefined);
    one.on("close", () => other.destroy());
  }
});
await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening));

const store = s3Store({
  // The port is part of the signature's host, so the server accepts it for what it is: an address by which it was called.
  endpoint: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
  bucket,
  allowHttp: true,
  attempts: 8,
  // Without waits between them: the other process is what makes a difference.
  random: () => 0,
  credentials: {
    accessKeyId: env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "",
    secretAccessKey: env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "",
  },
});

const places = createLimiter(4);
process.stdout.write('"ready"\n');
for await (const line of createInterface({ input: process.stdin })) {
  const ends = line.split(" ").map((key) =>
    places(async () => {
      const result = await putVerified(store, key, new TextEncoder().encode(`${pid} ${key}`), {
        writeId: `${pid}/${key}`,
        signal,
      });
      return [key, result.outcome] as const;
    }, signal),
  );
  process.stdout.write(`${JSON.stringify({ pid, lost, ends: await Promise.all(ends) })}\n`);
}
proxy.close();
