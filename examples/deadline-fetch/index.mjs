// Seven requests to a server that is well, silent, stopped, slow, killed and back. Each ends by its bound, and each error says what
// the server may have done.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { within } from "@holdfast/deadline-http";
import { bindFetch } from "@holdfast/deadline-http/fetch";

const boundMs = 500;
const http = bindFetch(fetch);

async function startServer(port = 0) {
  const child = fork(fileURLToPath(new URL("server.mjs", import.meta.url)), [String(port)]);
  const [message] = await once(child, "message");
  return { child, port: message.port };
}

let [done, shown] = [0, 0];

/** One request under one bound; prints how it ended. */
async function show(what, request) {
  shown += 1;
  const from = performance.now();
  // The one line: everything that the request waits for is in it, from the name lookup to the last byte of the body.
  const result = await within(boundMs, request, { name: "order", knobs: { "order.timeoutMs": boundMs } }).then(
    (text) => ({ text }),
    (error) => ({ error }),
  );
  const tookMs = Math.round(performance.now() - from);
  const { text, error } = result;
  if (error && error.outcome === undefined) throw error;
  console.log(`\n${shown}. ${what}`);
  console.log(error ? `   ${error.code} after ${tookMs} ms, outcome ${error.outcome}` : `   answered ${text}`);
  if (error) console.log(`   ${error.message}`);
  done += 1;
}

const text = async (url, init) => (await http(url, init)).text();
const order = { method: "POST", body: "one more" };

let server = await startServer();
const url = `http://127.0.0.1:${server.port}`;
try {
  await show("an order, to a server that is well", () => text(url, order));

  await show("an order that the server takes, and never answers", () => text(`${url}/silent`, order));
  await show("how many orders did it take? the one that timed out, too", () => text(url));

  server.child.kill("SIGSTOP");
  await show("the server is stopped (kill -STOP)", () => text(url));
  server.child.kill("SIGCONT");

  await show("a report that trickles, one byte every 50 ms", () => text(`${url}/report`));

  server.child.kill("SIGKILL");
  await once(server.child, "exit");
  await show("the server is killed (kill -KILL): nothing was sent, and the error proves it", () => text(url, order));

  server = await startServer(server.port);
  await show("it is back, and knows of no orders", () => text(url));
} finally {
  server.child.kill("SIGKILL");
}
console.log(`\nDone: ${done} requests, each answered or ended by its bound`);
