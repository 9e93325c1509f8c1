import type { ChildProcess } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Proxy } from "../../../packages/capture-service/test/support/proxy.js";
import {
  isCatalogBoundary,
  isStartBoundary,
  type Boundary,
  type Findings,
  type Orders,
  type Report,
} from "./boundaries.js";
import { exited, startScript } from "./process.js";

/** How long a victim may take to come to its boundary before it is killed where it is. */
const patienceMs = 10_000;
/** Appended before a moment of the clock is a good one. */
const randomAfterMs = 1_000;

type Life = { readonly child: ChildProcess; stderr(): string };

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
  #next: Life = startScript("victim");
  #proxy!: Proxy;
  #current: { readonly child: ChildProcess; readonly boundary: Boundary; left: number } | null = null;

  constructor(
    private readonly o: {
      readonly directory: string;
      readonly catalogUrl: string;
      readonly schemaName: string;
      readonly role: Orders["role"];
      readonly random: () => number;
    },
  ) {}

  async open(): Promise<void> {
    this.#proxy = await Proxy.open(this.o.catalogUrl, { keepLog: false });
    this.#proxy.watch = (moment, text) => this.#watch(moment, text);
  }

  async close(): Promise<void> {
    this.#next.child.kill("SIGKILL");
    await this.#proxy.close();
  }

  /** Whether the next life can come to this moment. */
  canReach(boundary: Boundary): boolean {
    if (!isStartBoundary(boundary)) return true;
    const directory = this.#spoolDirectory(this.#lives);
    return existsSync(directory) && readdirSync(directory).some((name) => name.endsWith(".open"));
  }

  /** One life that ends at `boundary`, or somewhere else when it does not come there. Answers whether it did. */
  async kill(boundary: Boundary): Promise<boolean> {
    const outside = isCatalogBoundary(boundary);
    const occurrence = 1 + Math.floor(this.o.random() * 2);
    const inside = outside || boundary === "random" ? null : boundary;
    const life = this.#begin({
      boundary: inside,
      occurrence: isStartBoundary(boundary) ? 1 : occurrence,
      last: false,
    });
    this.#current = { child: life.child, boundary, left: occurrence };
    const delay = boundary === "random" ? randomAfterMs * this.o.random() : patienceMs;
    const killed = { late: false };
    let timer: NodeJS.Timeout | undefined;
    life.child.on("message", (report: Report) => {
      if (report.kind !== "started") return;
      timer = setTimeout(() => {
        killed.late = boundary !== "random";
        life.child.kill("SIGKILL");
      }, delay);
    });
    await exited(life.child);
    clearTimeout(timer);
    this.#current = null;
    if (life.child.signalCode !== "SIGKILL")
      throw new Error(`a victim ended by itself: ${this.#failure} ${life.stderr()}`);
    this.kills += 1;
    const hit = killed.late ? "elsewhere" : boundary;
    this.hits.set(hit, (this.hits.get(hit) ?? 0) + 1);
    return !killed.late;
  }

  /** Lets both spools drain in peace. */
  async heal(): Promise<void> {
    await this.live();
    await this.live();
  }

  /** One life that drains its spool and stops. */
  async live(): Promise<void> {
    const life = this.#begin({ boundary: null, occurrence: 1, last: true });
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
    const { child, stderr } = startScript("examine");
    const { catalogUrl, schemaName } = this.o;
    const found = new Promise<Findings>((resolve) =>
      child.once("message", (findings) => resolve(findings as Findings)),
    );
    child.send({ catalogUrl, schemaName, storeDirectory: this.#storeDirectory });
    const failed = exited(child).then(() => Promise.reject(new Error(`the examiner failed: ${stderr()}`)));
    // It reports before it exits, so an exit that comes first is a failure.
    return Promise.race([found, failed]);
  }

  get #storeDirectory(): string {
    return join(this.o.directory, `store-${this.o.schemaName}`);
  }

  #spoolDirectory(life: number): string {
    return join(this.o.directory, `spool-${this.o.schemaName}-${life % 2}`);
  }

  #begin(orders: Pick<Orders, "boundary" | "occurrence" | "last">): Life {
    const life = this.#next;
    // The next victim boots while this one lives.
    this.#next = startScript("victim");
    const { schemaName, role } = this.o;
    const full: Orders = {
      ...orders,
      ttlMs: 2_000,
      ...{ role, schemaName, catalogUrl: this.#proxy.url, storeDirectory: this.#storeDirectory },
      spoolDirectory: this.#spoolDirectory(this.#lives),
      name: `${schemaName}.${this.#lives}`,
    };
    this.#lives += 1;
    life.child.on("message", (report: Report) => this.#hear(report));
    life.child.send(full);
    return life;
  }

  #hear(report: Report): void {
    if (report.kind === "acknowledged") for (const id of report.ids) this.acknowledged.add(id);
    else if (report.kind === "appended") for (const id of report.ids) this.appended.add(id);
    else if (report.kind === "failed") this.#failure = report.message;
  }

  #watch(moment: "before" | "after", text: string): "drop" | undefined {
    const current = this.#current;
    if (current === null || !/^\s*INSERT INTO/.test(text)) return undefined;
    const [when, table] = current.boundary.split(" ");
    if (when !== moment || table === undefined || !new RegExp(`^\\s*INSERT INTO \\S*_${table}\\b`).test(text))
      return undefined;
    current.left -= 1;
    if (current.left > 0) return undefined;
    current.child.kill("SIGKILL");
    this.#current = null;
    return "drop";
  }
}
