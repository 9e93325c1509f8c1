/**
 * One applier of the four-process race. Argument: connection as JSON. Messages: { go: name } begins a claim, answered { settling } once it
 * was answered; { settled } ends its settle, answered how it ended; { release } releases.
 */
import { Applier } from "./applier.js";
import { connect, type Connection } from "./connection.js";

const client = connect(JSON.parse(process.argv[2] ?? "") as Connection);
let applier: Applier | null = null;

async function handle(order: { go?: string; settled?: true; release?: true }): Promise<object> {
  if (order.go !== undefined) {
    applier = new Applier({ client, name: order.go, leaseMs: 60_000, settleMs: 1000 }).begin();
    return { settling: await applier.settles() };
  }
  if (applier === null) throw new Error("nothing was begun");
  const { lease } = applier;
  if (order.settled === true) return { held: await applier.end(), holder: lease.holder };
  await lease.release();
  return { released: true };
}

process.on("message", (order: object) => {
  handle(order).then(
    (answer) => process.send?.(answer),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.send?.({ ready: true });
