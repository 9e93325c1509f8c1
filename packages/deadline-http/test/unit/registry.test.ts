// Goal: installed copies of the package share one scope. Method: the modules loaded a second time in one process.
import { afterEach, expect, it, vi } from "vitest";
import * as first from "../../src/index.js";
import { VirtualClock } from "../../src/testing/index.js";
import { request, settled } from "../support/requests.js";

const v2 = Symbol.for("holdfast.deadline.v2");
const v1 = Symbol.for("holdfast.deadline.v1");

afterEach(() => {
  Reflect.deleteProperty(globalThis, v2);
  // The unit tier's files share one module cache: an import that failed here must not be what the next file gets.
  vi.resetModules();
});

it("DL-30 a deadline set through one copy binds a request made through another", async () => {
  vi.resetModules();
  const second = await import("../../src/index.js");
  expect(second.within).not.toBe(first.within);
  expect(second.systemClock).toBe(first.systemClock);
  const clock = new VirtualClock();
  const call = settled(
    clock,
    second.within(
      300,
      () =>
        first.within(1_000, () => request({ clock, script: [{ kind: "silent" }] }), { clock, name: "of the first" }),
      { clock, name: "of the second" },
    ),
  );
  await expect(second.within(50, async () => first.remainingMs(), { clock })).resolves.toBe(50);
  await clock.advance(1_000);
  expect(call).toMatchObject({ atMs: 300, error: { code: "DEADLINE_EXCEEDED", bound: { name: "of the second" } } });
});

it("DL-30 a registry of another major makes the import fail, with a code and what to do", async () => {
  Object.defineProperty(globalThis, v2, { value: { major: 2 }, configurable: true });
  vi.resetModules();
  await expect(import("../../src/index.js")).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  Reflect.deleteProperty(globalThis, v2);

  const held: unknown = Reflect.get(globalThis, v1);
  Reflect.set(globalThis, v1, { major: 7 });
  vi.resetModules();
  await expect(import("../../src/index.js")).rejects.toThrow(/major 7.*npm ls @holdfast\/deadline-http/);
  Reflect.set(globalThis, v1, held);
});
