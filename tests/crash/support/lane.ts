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
import { Statements } from "./statements.js";

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
  #next: Started;
  #statements!: Statements;
  #doomed: Doomed | null = null;

  constructor(
    private readonly o: {
      readonly scripts: Scripts;
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
    this.#next = o.scripts.start("victim");
  }

  async open(): Promise<void> {
    this.#statements = await Statements.open(this.o.catalogUrl, (moment, text) => this.#watch(moment, text));
  }

  async close(): Promise<void> {
    this.#next.child.kill("SIGKILL");
    await this.#statements.close();
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
    const life = this.#begin({
      boundary: inside ? boundary : null,
      ...{ occurrence, afterGroups, last: false },
      lease: { ttlMs: this.#ttlMs, publishTimeoutMs: Math.floor(this.#ttlMs * 0.4) },
    });
    const doomed: Doomed = { child: life.child, planned, left: occurrence, groups: 0, ended: null };
    this.#doomed = doomed;
    await life.closed;
    this.#doomed = null;
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
    const life = this.#begin({ boundary: null, occurrence: 1, afterGroups: 0, last: true, lease: drainLease });
    const finished = new Promise<Report>((resolve) => {
      life.child.on("message", (report: Report) => {
        if (report.kind === "finished" || report.kind === "failed") resolve(report);
      });
    });
    const died = exited(life.child).then((): Report => ({ kind: "failed", message: life.stderr() }));
    const report = await Promise.race([finished, died]);
    if (report.kind !== "finished" || !report.drained) throw new Error(`not drained: ${JSON.stringify(report)}`);
    await exited(life.child);
  }

  /** What another process finds in the catalog and in the store. */
  async examine(): Promise<Findings> {
    const { child, stderr, closed } = this.o.scripts.start("examine");
    const { catalogUrl, schemaName } = this.o;
    const found = new Promise<Findings>((resolve) =>
      child.once("message", (findings) => resolve(findings as Findings)),
    );
    child.send({ catalogUrl, schemaName, storeDirectory: this.#storeDirectory });
    const failed = closed.then(() => Promise.reject(new Error(`the examiner failed: ${stderr()}`)));
    // Its report arrives before its end does, so an end that comes first is a failure.
    return Promise.race([found, failed]);
  }

  get #storeDirectory(): string {
    return join(this.o.directory, `store-${this.o.schemaName}`);
  }

  #spoolDirectory(life: number): string {
    return join(this.o.directory, `spool-${this.o.schemaName}-${life % 2}`);
  }

  #begin(orders: Pick<Orders, "boundary" | "occurrence" | "afterGroups" | "lease" | "last">): Started {
    const life = this.#next;
    // The next victim boots while this one lives.
    this.#next = this.o.scripts.start("victim");
    const { schemaName, role } = this.o;
    const full: Orders = {
      ...orders,
      ...{ role, schemaName, catalogUrl: this.#statements.url, storeDirectory: this.#storeDirectory },
      spoolDirectory: this.#spoolDirectory(this.#lives),
      name: `${schemaName}.${this.#lives}`,
    };
    this.#lives += 1;
    life.child.on("message", (report: Report) => this.#hear(life.child, report));
    life.child.send(full);
    return life;
  }

  #hear(child: ChildProcess, report: Report): void {
    if (report.kind === "acknowledged") for (const id of report.ids) this.acknowledged.add(id);
    else if (report.kind === "appended") for (const id of report.ids) this.appended.add(id);
    else if (report.kind === "failed") this.#failure = report.message;
    const doomed = this.#doomed;
    if (doomed?.child !== child) return;
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

  #watch(moment: "before" | "after", text: string): "drop" | undefined {
    const doomed = this.#doomed;
    if (doomed === null) return undefined;
    const { boundary, afterGroups } = doomed.planned;
    if (boundary === "random") this.#randomEvent(doomed);
    const [when, table] = boundary.split(" ");
    if (!isCatalogBoundary(boundary) || when !== moment || doomed.groups < afterGroups) return undefined;
    if (!new RegExp(`^INSERT INTO \\S*_${table}\\b`).test(text)) return undefined;
    doomed.left -= 1;
    if (doomed.left > 0) return undefined;
    end(doomed, "at its boundary");
    this.#doomed = null;
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
