// The server of the race, in a process of its own: testkit's fake. Tells its parent where it is, and ends with it.
import { gcsObjects, startFaultServer } from "@holdfast/testkit";

const server = await startFaultServer({ otherwise: gcsObjects().answer });
process.once("disconnect", () => void server[Symbol.asyncDispose]());
process.send?.(server.url);
