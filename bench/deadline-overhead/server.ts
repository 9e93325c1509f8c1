// What the clients of the benchmark talk to, in a process of its own: `SELECT 1` for every POST, 4 KiB for every GET.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const row = Buffer.from('{"1":1}\n');
const object = Buffer.alloc(4096, "x");

const server = createServer((request, response) => {
  if (request.method === "POST") {
    request.resume().once("end", () => {
      response.writeHead(200, { "content-type": "application/json", "content-length": row.length }).end(row);
    });
    return;
  }
  response.writeHead(200, { "content-length": object.length, etag: '"4k"', "accept-ranges": "bytes" }).end(object);
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.once("disconnect", () => process.exit());
