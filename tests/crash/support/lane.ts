import type { ChildProcess } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseName } from "../../../packages/capture-service/src/spool/names.js";
import {
  isCatalogBoundary,
  isStartBoundary,
  killedAt,
  type Findings,
  type Orders,
  type Planned,
  type Report,
} from "./boundaries.js";
import { exited, type Scripts, type Started } from "./scripts.js";
import { Statements, type Watcher } from "./statements.js";

/** Groups acknowledged after its moments began to count, by which a victim that has not come to its boundary will not. */
const patienceGroups = 200;
/** A kill at random comes within so many of the reports and statements that are seen of a victim. */
const randomWithinEvents = 150;
/** And up to so many milliseconds after one of them, so that it falls between them as well. */
const randomAfterMs = 20;
const longestTtlMs = 60_000;
/** A life that drains its spool gives its lease back, so nobody waits for this to pass. */
const drainLease = { ttlMs: longestTtlMs, publishTimeoutMs: longestTtlMs / 3 };

/** A life that is to end, and how it was ended from here. */
type Doomed = {
  readonly child: ChildProcess;
  readonly planned: Planned;
  left: number;
  groups: number;
  ended: "at its boundary" | "elsewhere" | null;
};

/** What the methods of a lane reject with once it is closed. */
export class LaneClosedError extends Error {
  constructor() {
    super("the lane was closed");
  }
}

/**
 * One catalog whose services are killed one after another. They take turns on two spool directories, as on two machines: what
 * one leaves in the bucket the next one finds, and what it leaves in its spool its successor there finds.
 */
export class Lane {
  readonly acknowledged = new Set<string>();
  readonly appended = new Set<string>();
  readonly hits = new Map<string, number>();
  kills = 0;
  #lives = 0;
  #failure = "";
  #ttlMs: number;
  #closed = false;
  /** Processes that were started and have not ended. */
  readonly #alive = new Set<Started>();
  #next: Started;
  readonly #statements: Statements[] = [];

  constructor(
    private readonly o: {
      readonly scripts: Pick<Scripts, "start">;
      readonly directory: string;
      readonly catalogUrl: string;
      readonly schemaName: string;
      readonly role: Orders["role"];
      /** Of the leases of those that are killed: each successor waits for one to expire. */
      readonly ttlMs: number;
      readonly random: () => number;
    },
  ) {
    this.#ttlMs = o.ttlMs;
    this.#next = this.#start("victim");
  }

  /** Starts nothing more, kills what is running, and resolves when that has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { child } of this.#alive) child.kill("SIGKILL");
    await Promise.all(Array.from(this.#alive, ({ closed }) => closed));
    await Promise.all(this.#statements.splice(0).map((statements) => statements.close()));
  }

  /** Whether the next life finds what a start seals: records in an open file that its predecessor did not seal. */
  get findsOpenFile(): boolean {
    const directory = this.#spoolDirectory(this.#lives);
    const names = existsSync(directory) ? readdirSync(directory) : [];
    const packs = names.flatMap((name) => {
      const parsed = parseName(name);
      return parsed?.kind === "open" || parsed?.kind === "sealed" ? [{ ...parsed, name }] : [];
    });
    const sealed = new Set(packs.flatMap(({ kind, sequence }) => (kind === "sealed" ? [sequence] : [])));
    const left = packs.filter(({ sequence }) => !sealed.has(sequence));
    return left.some(({ name }) => statSync(join(directory, name)).size > 0);
  }

  /** One life that ends at a boundary, or somewhere else when it does not come there. Returns whether it did. */
  async kill(planned: Planned): Promise<boolean> {
    const { boundary, afterGroups } = planned;
    const isRandom = boundary === "random";
    const inside = !isRandom && !isCatalogBoundary(boundary);
    const within = isRandom ? randomWithinEvents : isStartBoundary(boundary) ? 1 : 2;
    const occurrence = 1 + Math.floor(this.o.random() * within);
    const life = this.#take();
    const doomed: Doomed = { child: life.child, planned, left: occurrence, groups: 0, ended: null };
    const orders = {
      boundary: inside ? boundary : null,
      ...{ occurrence, afterGroups, last: false },
      lease: { ttlMs: this.#ttlMs, publishTimeoutMs: Math.floor(this.#ttlMs * 0.4) },
    };
    life.child.on("message", (report: Report) => this.#judge(doomed, report));
    await this.#begin(life, orders, (moment, text) => this.#watch(doomed, moment, text));
    await life.closed;
    if (this.#closed) throw new LaneClosedError();
    const hit = inside ? life.stderr().endsWith(killedAt(boundary)) : doomed.ended === "at its boundary";
    if (life.child.signalCode !== "SIGKILL" || (!hit && doomed.ended !== "elsewhere"))
      throw new Error(`a victim ended by itself: ${this.#failure} ${life.stderr()}`);
    this.kills += 1;
    const at = hit ? boundary : "elsewhere";
    this.hits.set(at, (this.hits.get(at) ?? 0) + 1);
    return hit;
  }

  /** Lets both spools drain in peace. */
  async heal(): Promise<void> {
    await this.live();
    await this.live();
  }

  /** One life that drains its spool and stops. */
  async live(): Promise<void> {
    const life = this.#take();
    const finished = new Promise<Report>((resolve) => {
      life.child.on("message", (report: Report) => {
        if (report.kind === "finished" || report.kind === "failed") resolve(report);
      });
    });
    const died = exited(life.child).then((): Report => ({ kind: "failed", message: life.stderr() }));
    const orders = { boundary: null, occurrence: 1, afterGroups: 0, last: true, lease: drainLease };
    await this.#begin(life, orders, () => undefined);
    const report = await Promise.race([finished, died]);
    if (this.#closed) throw new LaneClosedError();
    if (report.kind !== "finished" || !report.drained) throw new Error(`not drained: ${JSON.stringify(report)}`);
    await exited(life.child);
  }

  /** What another process finds in the catalog and in the store. */
  async examine(): Promise<Findings> {
    const { child, stderr, closed } = this.#start("examine");
    const { catalogUrl, schemaName } = this.o;
    const found = new Promise<Findings>((resolve) =>
      child.once("message", (findings) => resolve(findings as Findings)),
    );
    child.send({ catalogUrl, schemaName, storeDirectory: this.#storeDirectory });
    const failed = closed.then(() =>
      Promise.reject(this.#closed ? new LaneClosedError() : new Error(`the examiner failed: ${stderr()}`)),
    );
    // Its report arrives before its end does, so an end that comes first is a failure.
    return Promise.race([found, failed]);
  }

  get #storeDirectory(): string {
    return join(this.o.directory, `store-${this.o.schemaName}`);
  }

  #spoolDirectory(life: number): string {
    return join(this.o.directory, `spool-${this.o.schemaName}-${life % 2}`);
  }

  #start(name: "victim" | "examine"): Started {
    if (this.#closed) throw new LaneClosedError();
    const started = this.o.scripts.start(name);
    this.#alive.add(started);
    void started.closed.then(() => this.#alive.delete(started));
    return started;
  }

  /** The next victim. The one after it boots while this one lives. */
  #take(): Started {
    const life = this.#next;
    this.#next = this.#start("victim");
    return life;
  }

  /**
   * Sends a victim its orders. It has a proxy to itself: a statement of its killed predecessor may be read, or answered, only now, and must not
   * count as its own.
   */
  async #begin(
    life: Started,
    orders: Pick<Orders, "boundary" | "occurrence" | "afterGroups" | "lease" | "last">,
    watch: Watcher,
  ): Promise<void> {
    const statements = await Statements.open(this.o.catalogUrl, watch);
    this.#statements.push(statements);
    if (this.#closed) throw new LaneClosedError();
    // The proxy of the last life stays: what the victim had sent still comes to the server.
    if (this.#statements.length > 2) await this.#statements.shift()?.close();
    const { schemaName, role } = this.o;
    const full: Orders = {
      ...orders,
      ...{ role, schemaName, catalogUrl: statements.url, storeDirectory: this.#storeDirectory },
      spoolDirectory: this.#spoolDirectory(this.#lives),
      name: `${schemaName}.${this.#lives}`,
    };
    this.#lives += 1;
    life.child.on("message", (report: Report) => this.#note(report));
    // It fails only when the victim has ended, and that is noticed.
    life.child.send(full, () => undefined);
  }

  #note(report: Report): void {
    if (report.kind === "acknowledged") for (const id of report.ids) this.acknowledged.add(id);
    else if (report.kind === "appended") for (const id of report.ids) this.appended.add(id);
    else if (report.kind === "failed") this.#failure = report.message;
  }

  #judge(doomed: Doomed, report: Report): void {
    if (doomed.ended !== null) return;
    if (report.kind === "acknowledged") doomed.groups += 1;
    if (report.kind === "stuck") {
      // This machine is too slow for such a lease.
      this.#ttlMs = Math.min(longestTtlMs, this.#ttlMs * 2);
      end(doomed, "elsewhere");
    } else if (doomed.planned.boundary === "random") this.#randomEvent(doomed);
    else if (isLate(doomed)) end(doomed, "elsewhere");
  }

  #randomEvent(doomed: Doomed): void {
    doomed.left -= 1;
    if (doomed.left !== 0) return;
    setTimeout(() => end(doomed, "at its boundary"), this.o.random() * randomAfterMs);
  }

  #watch(doomed: Doomed, moment: "before" | "after", text: string): "drop" | undefined {
    if (doomed.ended !== null) return undefined;
    const { boundary, afterGroups } = doomed.planned;
    if (boundary === "random") this.#randomEvent(doomed);
    const [when, table] = boundary.split(" ");
    if (!isCatalogBoundary(boundary) || when !== moment || doomed.groups < afterGroups) return undefined;
    if (!new RegExp(`^INSERT INTO \\S*_${table}\\b`).test(text)) return undefined;
    doomed.left -= 1;
    if (doomed.left > 0) return undefined;
    end(doomed, "at its boundary");
    return "drop";
  }
}

/** Whether a victim has done so much without coming to its boundary that it will not. */
function isLate({ planned, groups }: Doomed): boolean {
  const { boundary, afterGroups } = planned;
  // A renewal comes with time, whatever is appended.
  if (boundary === "after publisher_lease") return false;
  return groups > (isStartBoundary(boundary) ? 0 : afterGroups + patienceGroups);
}

function end(doomed: Doomed, where: NonNullable<Doomed["ended"]>): void {
  doomed.ended ??= where;
  doomed.child.kill("SIGKILL");
}
