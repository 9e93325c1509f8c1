// Goal: the fate of a push, for every order of answers. Method: the pure step, by hand; and all event sequences up to a length, against what has to hold of each.
import type { Instant } from "@holdfast/deadline-http";
import { describe, expect, it } from "vitest";
import { start, step, type Landing, type LandingEvent } from "../../src/landing.js";

const budgetMs = 100;
const refusal = new Error("no");
const broken = new Error("broken");
const at = (ms: number): Instant => ms as Instant;
const failed = (transient: boolean, reached = true): LandingEvent => ({
  e: "failed",
  error: broken,
  transient,
  reached,
});
const refused = (passing = false): LandingEvent => ({ e: "refused", error: refusal, passing });
const seen = (branch: "same" | "contains" | "moved"): LandingEvent => ({ e: "seen", branch });
const rested: LandingEvent = { e: "rested" };

const run = (events: readonly LandingEvent[], atMs: (i: number) => number = () => 0): Landing =>
  events.reduce((state, event, i) => step(state, event, at(atMs(i)), budgetMs), start);

describe("a landing", () => {
  it.each<[string, LandingEvent[], Partial<Landing>]>([
    ["a push that is taken has landed", [{ e: "pushed" }], { s: "landed" }],
    ["a refused push is looked at before any verdict", [refused()], { s: "look" }],
    ["GB-07 a refused push that is found in the branch has landed", [refused(), seen("contains")], { s: "landed" }],
    ["a refused push whose branch has moved has lost", [refused(), seen("moved")], { s: "moved" }],
    [
      "GB-06 a refusal while the branch did not move is the end",
      [refused(), seen("same")],
      { s: "refused", error: refusal, outcome: "refused" },
    ],
    ["a refusal that passes by is tried again", [refused(true), seen("same")], { s: "pause" }],
    ["GB-14 a broken connection is tried again", [failed(true)], { s: "pause", outcome: "unknown" }],
    ["after the pause the same is pushed", [failed(true), rested], { s: "push" }],
    [
      "GB-14 a failure that does not pass by is not tried again",
      [failed(false), seen("same")],
      { s: "refused", error: broken, outcome: "unknown" },
    ],
    ["a remote that was never reached leaves no doubt", [failed(true, false)], { s: "pause", outcome: "not-sent" }],
    [
      "what one push left open stays open",
      [failed(true), rested, failed(true, false)],
      { s: "pause", outcome: "unknown" },
    ],
    [
      "a refusal after an open push leaves it open",
      [failed(true), rested, refused(), seen("same")],
      { s: "refused", outcome: "unknown" },
    ],
    [
      "a look that fails leaves everything open",
      [refused(), { e: "unseen", error: broken }],
      { s: "unavailable", outcome: "unknown" },
    ],
  ])("%s", (_, events, end) => {
    expect(run(events)).toMatchObject(end);
  });

  it("GB-14 the budget counts from the first failure, and its end is the end", () => {
    const events = [failed(true, false), rested, failed(true, false)];
    expect(run(events, (i) => i * 49)).toMatchObject({ s: "pause" });
    expect(run(events, (i) => i * 50)).toMatchObject({ s: "unavailable", error: broken, outcome: "not-sent" });
  });

  it("an event that no state waits for is a defect", () => {
    expect(() => run([rested])).toThrow("does not end with rested");
    expect(() => run([{ e: "pushed" }, { e: "pushed" }])).toThrow("waits for nothing");
  });

  it("in every sequence of up to six answers: no verdict without a look, and doubt never goes away", () => {
    const answers: Record<string, LandingEvent[]> = {
      push: [{ e: "pushed" }, refused(), refused(true), failed(true), failed(true, false), failed(false)],
      look: [seen("same"), seen("contains"), seen("moved"), { e: "unseen", error: broken }],
      pause: [rested],
    };
    let ends = 0;
    const visit = (state: Landing, path: readonly LandingEvent[]): void => {
      const next = answers[state.s];
      const open = path.some((event) => event.e === "failed" && event.reached);
      if (next === undefined) {
        ends++;
        const last = path.at(-1);
        if (state.s === "moved") expect(last).toEqual(seen("moved"));
        if (state.s === "landed") expect(["pushed", "seen"]).toContain(last?.e);
        if (state.s === "refused" || state.s === "unavailable") expect(state.outcome === "unknown" || !open).toBe(true);
        return;
      }
      if (path.length < 6) for (const event of next) visit(step(state, event, at(0), budgetMs), [...path, event]);
    };
    visit(start, []);
    expect(ends).toBeGreaterThan(50);
  });
});
