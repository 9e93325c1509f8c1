// Takes a directory when told to, says whether it got it, and keeps it.
import { spawn } from "node:child_process";
import { systemClock } from "@holdfast/deadline-http";
import { takeOwnership } from "../../../packages/capture-service/src/spool/owner.js";

export type OwnerOrders = { readonly directory: string; readonly withChild: boolean };
export type OwnerReport = {
  readonly owns: boolean;
  readonly pid: number;
  readonly childPid: number | null;
  readonly code?: string;
};

process.once("message", (orders: OwnerOrders) => {
  takeOwnership(orders.directory, { clock: systemClock, random: Math.random }).then(
    () => {
      const child = orders.withChild ? spawn("sleep", ["600"], { stdio: "inherit", detached: true }) : null;
      child?.unref();
      process.send?.({ owns: true, pid: process.pid, childPid: child?.pid ?? null } satisfies OwnerReport);
    },
    (error: unknown) => {
      const code = (error as { code?: string }).code ?? String(error);
      process.send?.({ owns: false, pid: process.pid, childPid: null, code } satisfies OwnerReport);
    },
  );
});
process.once("disconnect", () => process.exit());
