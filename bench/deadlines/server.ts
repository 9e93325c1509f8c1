// The process with the fault server and the proxies before it; a loop of its own, so that it holds up no call.
import {
  badGzip,
  blackholePort,
  closedPort,
  closeIdle,
  cut,
  late,
  resetOnReuse,
  rows,
  stallBeforeBody,
  stallBeforeHeaders,
  stallMidBody,
  stallMidHeaders,
  startFaultProxy,
  startFaultServer,
  trickle,
  unavailable,
  type Answer,
  type CutBy,
  type FaultProxy,
  type ProxyRule,
  type Reply,
} from "@holdfast/testkit";
import { callOf, type ClientName, type Log, type Places, type Reached } from "./cases.js";

const text = "0123456789abcdef".repeat(20);
const bytes: Reply = { headers: { "Content-Type": "application/octet-stream", ETag: '"e"' }, body: text };
const json: Reply = { headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name: "f", text }) };

const good: Readonly<Record<ClientName, Reply>> = {
  "ClickHouse SELECT": rows('{"a":"0123456789"}\n'.repeat(20)),
  "ClickHouse INSERT": rows("\n".repeat(60)),
  "S3 GetObject": bytes,
  "S3 PutObject": bytes,
  "GCS download": bytes,
  "GCS save": json,
  "fetch GET": bytes,
  "fetch POST": bytes,
};

const faults: Readonly<Record<Reached, (answer: Reply) => Answer>> = {
  "stall before headers": stallBeforeHeaders,
  "stall mid-headers": stallMidHeaders,
  "stall before body": stallBeforeBody,
  "stall mid-body": (answer) => stallMidBody(answer, 20),
  "trickling body": (answer) => trickle(answer, 20),
  "trickling headers": (answer) => trickle(answer, 20, { headers: true }),
  "late answer": (answer) => late(answer),
  "503": () => unavailable(),
  "503 Retry-After": () => unavailable(1),
  "bad gzip": badGzip,
  "answer cut before headers": (answer) => cut(answer, "before-headers", "rst"),
  "answer cut mid-body": (answer) => cut(answer, "mid-body", "fin", 20),
  "request cut by FIN": (answer) => answer,
  "request cut by RST": (answer) => answer,
  "reset on reuse": resetOnReuse,
  "FIN on idle": (answer) => closeIdle(answer, 0, "fin"),
};

const cutRule = (fault: Reached, by: CutBy): ProxyRule => ({
  match: ({ url }) => callOf(url)?.fault === fault,
  // Somewhere in its headers, which every request has.
  fault: {
    kind: "cut-request",
    afterBytes: ({ url, headBytes }) => ((callOf(url)?.number ?? 0) * 7_919) % headBytes,
    by,
  },
});

const server = await startFaultServer({
  otherwise: (request) => {
    const call = callOf(request.target);
    // The credentials that never come, and the request that keeps the only socket.
    if (call === null || !(call.fault in faults)) return stallBeforeHeaders() as Reply;
    const answer = faults[call.fault as Reached](good[call.client]);
    return typeof answer === "function" ? answer(request) : answer;
  },
});
const target = { port: server.port };
const rules = [cutRule("request cut by FIN", "fin"), cutRule("request cut by RST", "rst")];
const proxy = await startFaultProxy({ target, rules, bodyStartBytes: 0 });
const unaccepting = await startFaultProxy({ target, bodyStartBytes: 0 });
unaccepting.pause();

/** An address that was read belongs to its call; all other bytes are nobody's. */
function log(proxies: readonly FaultProxy[]): Log {
  const requests = new Map<number, number>();
  let strayBytes = 0;
  for (const { requests: seen } of proxies) {
    for (const { request, bytes: count } of seen) {
      const call = request === undefined ? null : callOf(request.url);
      if (call) requests.set(call.number, (requests.get(call.number) ?? 0) + 1);
      else if (request === undefined) strayBytes += count;
    }
  }
  return { requests: [...requests], strayBytes };
}

const places: Places = {
  port: proxy.port,
  notAccepted: unaccepting.port,
  neverConnects: (await blackholePort()).port,
  refused: await closedPort(),
};
process.on("message", () => {
  void Promise.all([proxy.settled(), unaccepting.settled()]).then(() => process.send?.(log([proxy, unaccepting])));
});
process.on("disconnect", () => process.exit());
process.send?.(places);
