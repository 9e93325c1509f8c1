// Goal: the lock file of a killed git goes, and that of a living one never does. Method: real files and a clock that the test moves; what happens
// between a look and the removal is done when the clock is read.
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { expect, it, onTestFinished } from "vitest";
import { DeadLocks, deadLockMs, watchedMs } from "../../src/dead-lock.js";
import { settingsOf } from "../../src/options.js";

const ref = "refs/heads/main";

/** A remote with a lock that was written `ageMs` ago, and a store that has seen it once. */
async function watched(ageMs: number) {
  const remote = mkdtempSync(join(tmpdir(), "dead-lock-"));
  onTestFinished(() => rmSync(remote, { recursive: true }));
  mkdirSync(join(remote, "refs", "heads"), { recursive: true });
  const lock = join(remote, `${ref}.lock`);
  const clock = new VirtualClock();
  const write = (writtenAtMs: number): void => {
    writeFileSync(lock, "");
    utimesSync(lock, new Date(writtenAtMs), new Date(writtenAtMs));
  };
  write(clock.wallMs() - ageMs);
  /** Runs when the wall clock is read. */
  const onRead = { run: (): void => undefined };
  const reading = {
    now: () => clock.now(),
    wallMs: () => {
      onRead.run();
      return clock.wallMs();
    },
    sleep: clock.sleep.bind(clock),
    setTimer: clock.setTimer.bind(clock),
  };
  const locks = new DeadLocks(settingsOf({ remote, directory: join(remote, "clones"), clock: reading }));
  await locks.clear(ref);
  return { remote, lock, clock, locks, write, onRead };
}

it("one that is ten minutes old and was watched is removed, and nothing stays behind", async () => {
  const { remote, clock, locks } = await watched(deadLockMs);
  await clock.advance(watchedMs);
  await locks.clear(ref);
  expect(readdirSync(join(remote, "refs", "heads"))).toEqual([]);
  expect(readdirSync(remote)).toEqual(["refs"]);
});

it("one that this store has only just seen stays, however old the wall clock makes it", async () => {
  const { lock, clock, locks } = await watched(24 * 3_600_000);
  await clock.advance(watchedMs - 1);
  await locks.clear(ref);
  expect(statSync(lock).isFile()).toBe(true);
});

it("one that is younger than ten minutes stays", async () => {
  const { lock, clock, locks } = await watched(deadLockMs - watchedMs - 1_000);
  await clock.advance(watchedMs);
  await locks.clear(ref);
  expect(statSync(lock).isFile()).toBe(true);
});

it("one that another git has made since is watched from its beginning", async () => {
  const { lock, clock, locks, write } = await watched(deadLockMs);
  await clock.advance(watchedMs);
  rmSync(lock);
  write(clock.wallMs() - 2 * deadLockMs);
  await locks.clear(ref);
  expect(statSync(lock).isFile()).toBe(true);
});

it("one that took the place of the dead one stays, even between the last look and the removal", async () => {
  const { lock, clock, locks, onRead } = await watched(deadLockMs);
  await clock.advance(watchedMs);
  const living = `${lock}.living`;
  writeFileSync(living, "");
  onRead.run = () => {
    onRead.run = () => undefined;
    renameSync(living, lock);
  };
  await locks.clear(ref);
  expect(statSync(lock).isFile()).toBe(true);
});

it("one that another store is removing stays; if that one was killed, for ten minutes at most", async () => {
  const { remote, lock, clock, locks } = await watched(deadLockMs);
  await clock.advance(watchedMs);
  const { ino, mtimeNs } = statSync(lock, { bigint: true });
  const guards = (): string[] => readdirSync(remote).filter((name) => name.startsWith(`holdfast-${ino}-${mtimeNs}-`));
  // The directory that the other store makes for as long as it is at it, under whatever name this one would use.
  mkdirSync(join(remote, `holdfast-${ino}-${mtimeNs}-${Math.floor(clock.wallMs() / deadLockMs)}`));
  await locks.clear(ref);
  expect(statSync(lock).isFile()).toBe(true);
  expect(guards()).toHaveLength(1);
  await clock.advance(deadLockMs);
  await locks.clear(ref);
  expect(() => statSync(lock)).toThrow("ENOENT");
});
