// What tests say and do about the lease of a service: its row beside its status, and how it is lost.
import { until } from "@holdfast-private/tests-machine";
import type { CaptureService } from "../../src/index.js";
import { leaseInsert, patientLease, type NotesSchema } from "./catalog.js";
import type { Proxy } from "./proxy.js";
import type { Rig } from "./rig.js";
import type { SkippingClock } from "./skipping-clock.js";

type Service = CaptureService<NotesSchema>;
/** A service under a patient lease, on its own clock and behind its own proxy (`Rig.stage`). */
export type Staged = { schema: NotesSchema; clock: SkippingClock; proxy: Proxy; service: Service };

const { ttlMs } = patientLease;
const table = "holdfast_publisher_lease";

export const stateOf = (service: Service): string => service.status().lease?.state ?? "none";

/** Renews the lease `times` times, a third of its TTL after another. */
export async function renew({ clock, service }: Pick<Staged, "clock" | "service">, times = 1): Promise<void> {
  for (let i = 0; i < times; i += 1) {
    const { renewals } = service.status().lease!;
    clock.skip(ttlMs / 3);
    await until("a renewal", () => service.status().lease!.renewals > renewals);
  }
}

/** Stalls the INSERT of the next renewal until the lease is over. Its row stands at the server, see {@link expireRows}. */
export async function loseLease({ clock, proxy, service }: Staged): Promise<void> {
  const inserts = proxy.seen(leaseInsert).length;
  proxy.on(leaseInsert, "stall", 1);
  clock.skip(ttlMs / 3);
  await until("a renewal stalls", () => proxy.seen(leaseInsert).length > inserts);
  clock.skip((2 * ttlMs) / 3);
  await until("quarantined", () => stateOf(service) === "quarantined");
}

/** Ends a quarantine as time would: the rows are over at the server, and then the quarantine is at the service. */
export async function endQuarantine(rig: Rig, { schema, clock }: Pick<Staged, "schema" | "clock">): Promise<void> {
  await expireRows(rig, schema);
  clock.skip(ttlMs);
}

/**
 * Ages the lease rows of a schema, so that they keep nobody out any more. Only for one whose holder has lost it: nobody acts on them. The
 * earliest end of a lease counts, so a row with an earlier one is enough.
 */
export async function expireRows(rig: Rig, { name }: NotesSchema): Promise<void> {
  await rig.command(
    `INSERT INTO ${table} (name, term, lease_id, holder, acquired_at_ns, expires_at_ns) ` +
      `SELECT name, term, lease_id, any(holder), min(acquired_at_ns) AS acquired, acquired FROM ${table} ` +
      `WHERE name = '${name}' GROUP BY name, term, lease_id`,
  );
}

/** Whether the row of the newest term keeps others out, as the lease protocol reads it. */
const liveRow = ({ name }: NotesSchema): string =>
  `SELECT count() > 0 AS live FROM (SELECT min(expires_at_ns) AS until FROM ${table} WHERE name = '${name}' ` +
  `AND term = (SELECT max(term) FROM ${table} WHERE name = '${name}') GROUP BY lease_id) ` +
  `WHERE until > toUnixTimestamp64Nano(now64(9))`;

export async function released(rig: Rig, schema: NotesSchema): Promise<boolean> {
  const rows = await rig.rows<{ live: boolean | number }>(liveRow(schema));
  return !rows[0]?.live;
}

type Sample = { readonly read: number; readonly state: string; readonly rowLive: boolean };

/** Samples what the service says of its lease beside what the row says, one sample after another, until it is stopped. */
export function sampler(rig: Rig, service: Service, schema: NotesSchema) {
  const samples: Sample[] = [];
  let reads = 0;
  let on = true;
  const client = rig.client();
  const look = async (): Promise<void> => {
    while (on) {
      // The state first and again after: only one that did not change over the whole read is compared.
      const before = stateOf(service);
      reads += 1;
      const read = reads;
      const result = await client.query({ query: liveRow(schema), format: "JSONEachRow" });
      const [row] = await result.json<{ live: boolean | number }>();
      if (stateOf(service) === before) samples.push({ read, state: before, rowLive: Boolean(row?.live) });
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const work = look().finally(() => client.close());
  // Told by `stop`.
  work.catch(() => undefined);
  const stop = async (): Promise<void> => {
    on = false;
    await work;
  };
  return {
    /** Samples in which the service named this state and its row was as said. */
    seen: (state: string, rowLive: boolean) => samples.filter((s) => s.state === state && s.rowLive === rowLive),
    /** A sample that was begun after this call: one whose read is under way may tell of the time before it. */
    next: async (): Promise<Omit<Sample, "read">> => {
      const begun = reads;
      await until("a sample of the lease", () => (samples.at(-1)?.read ?? 0) > begun);
      const { state, rowLive } = samples.at(-1)!;
      return { state, rowLive };
    },
    /** Samples in which the service said "held" and its row was over. */
    lies: () => samples.filter(({ state, rowLive }) => state === "held" && !rowLive),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
