// Goal: a statement counts for the life that sent it and for no other, and one lane that fails ends the others and names its own error. Method:
// lanes with victims that this process plays, before a server that answers when the test says so.
import { EventEmitter } from "node:events";
import { createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { until } from "@holdfast-private/tests-machine";
import { expect, it, onTestFinished } from "vitest";
import type { Orders, Planned, Report } from "./support/boundaries.js";
import type { Lane } from "./support/lane.js";
import { Lanes } from "./support/lanes.js";
import type { Started } from "./support/scripts.js";

/** A process that does nothing by itself. */
class Victim extends EventEmitter {
  orders: Orders | null = null;
  exitCode: number | null = null;
  signalCode: NodeJS.Signals | null = null;
  /** Some time after a kill a process has ended. */
  ended = false;

  send(orders: Orders): void {
    this.orders = orders;
  }

  kill(): void {
    this.signalCode = "SIGKILL";
    setImmediate(() => this.end());
  }

  end(): void {
    this.ended = true;
    for (const event of ["exit", "close", "disconnect"]) this.emit(event);
  }

  report(report: Report): void {
    this.emit("message", report);
  }

  /** Sends a statement; resolves with whether it was answered. */
  insert(table: string): Promise<boolean> {
    const sent = request(this.orders!.catalogUrl, { method: "POST" });
    sent.end(`INSERT INTO crash_${table} FORMAT RowBinary`);
    return new Promise((resolve) => {
      sent.on("error", () => resolve(false)).on("response", (answer) => answer.resume().on("end", () => resolve(true)));
    });
  }
}

const victims = () => {
  const started: Victim[] = [];
  const start = (): Started => {
    const child = new Victim();
    started.push(child);
    const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
    return { child: child as never, stderr: () => "stderr", closed };
  };
  return { started, scripts: { start } };
};

/** Holds each request until the test answers it. */
async function holdingServer(): Promise<{ url: string; held: ServerResponse[] }> {
  const held: ServerResponse[] = [];
  const server = createServer((incoming, response) => {
    incoming.resume().on("end", () => held.push(response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, held };
}

function setUp(catalogUrl: string) {
  const lanes = new Lanes();
  onTestFinished(() => lanes.close());
  const add = (): { lane: Lane; started: Victim[] } => {
    const { started, scripts } = victims();
    const common = { directory: tmpdir(), schemaName: "crash", role: "publisher", ttlMs: 1_000 } as const;
    return { lane: lanes.add({ ...common, scripts, catalogUrl, random: () => 0 }), started };
  };
  return { lanes, add };
}

const planned: Planned = { boundary: "after record", afterGroups: 0 };
const isUnderWay = (victim: Victim | undefined) => () => victim?.orders != null;

it("a statement of a killed victim that is answered while its successor lives is not the successor's", async () => {
  const { url, held } = await holdingServer();
  const { lane, started } = setUp(url).add();
  const first = lane.kill(planned);
  await until("the first one lives", isUnderWay(started[0]));
  const late = started[0]!.insert("record");
  await until("its statement is at the server", () => held.length === 1);
  started[0]!.report({ kind: "stuck", status: "" });
  expect(await first).toBe(false);

  const second = lane.kill(planned);
  await until("the second one lives", isUnderWay(started[1]));
  held[0]!.end();
  expect(await late).toBe(true);
  expect(started[1]!.signalCode).toBe(null);

  const own = started[1]!.insert("record");
  await until("its own statement is at the server", () => held.length === 2);
  held[1]!.end();
  expect([await own, await second]).toEqual([false, true]);
  expect(lane.hits).toEqual(
    new Map([
      ["elsewhere", 1],
      ["after record", 1],
    ]),
  );
});

it("a lane that fails ends the others, waits for their processes, and its own error is the one that is thrown", async () => {
  const { url } = await holdingServer();
  const { lanes, add } = setUp(url);
  const [failing, other] = [add(), add()];
  const all = lanes.together<unknown>([failing.lane.live(), other.lane.kill(planned)]);
  await until("both live", () => isUnderWay(failing.started[0])() && isUnderWay(other.started[0])());
  failing.started[0]!.report({ kind: "failed", message: "no lease" });
  await expect(all).rejects.toThrow('not drained: {"kind":"failed","message":"no lease"}');
  const processes = [...failing.started, ...other.started];
  expect(processes.map(({ signalCode, ended }) => [signalCode, ended])).toEqual(processes.map(() => ["SIGKILL", true]));
  // Nothing is started any more.
  await expect(other.lane.kill(planned)).rejects.toThrow("the lane was closed");
  expect(add).toThrow("the lane was closed");
  expect(other.started).toHaveLength(2);
});

it("of several errors the first is named, and all are in what is thrown", async () => {
  const { lanes } = setUp("http://127.0.0.1:9");
  const errors = [new Error("first"), new Error("second")];
  const thrown = lanes.together(errors.map((error) => Promise.reject(error)));
  await expect(thrown).rejects.toMatchObject({ message: "first (and 1 more after it)", cause: errors[0], errors });
});
