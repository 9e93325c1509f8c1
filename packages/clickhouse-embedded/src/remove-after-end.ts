import { spawn, type ChildProcess } from "node:child_process";

/** Held for good: the pipes to them end with this process and not before. */
const shells: ChildProcess[] = [];

/**
 * Removes a directory once this process is gone, however it ends: a shell waits for the end of a pipe that only this process holds. The engine
 * writes until its last moment, so what this process removed itself would come back.
 */
export function removeAfterEnd(directory: string): void {
  const shell = spawn("/bin/sh", ["-c", 'read -r _; rm -rf -- "$0"', directory], {
    stdio: ["pipe", "ignore", "ignore"],
    // Not in our process group: what ends all of us must not end the one that cleans up.
    detached: true,
  });
  // Where there is no shell, stop() removes the directory, as it always does, and the end of the parent does not.
  shell.once("error", () => undefined);
  shell.unref();
  shells.push(shell);
}
