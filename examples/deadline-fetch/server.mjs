// The server that the example stops and kills: it counts the orders that it took, so that what an error said can be compared
// with what was done.
import { createServer } from "node:http";

let orders = 0;

const server = createServer((request, response) => {
  if (request.url === "/report") {
    // One byte every 50 ms, for ever: never idle, never done.
    response.writeHead(200, { "content-type": "text/plain" });
    const timer = setInterval(() => response.write("."), 50);
    response.on("close", () => clearInterval(timer));
    return;
  }
  if (request.method === "POST") orders += 1;
  // Taken, and never answered.
  if (request.url === "/silent") return;
  request.resume().on("end", () => response.end(JSON.stringify({ orders })));
});

server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  const { port } = server.address();
  process.send?.({ port });
  if (!process.send) console.log(`http://127.0.0.1:${port}`);
});
process.on("disconnect", () => process.exit());
