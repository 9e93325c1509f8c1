/** Goal: a name server delays nothing but the first connection of a lease. Method: the cache of addresses over a lookup made by hand. */
import type { LookupAddress, lookup as systemLookup } from "node:dns";
import { describe, expect, it } from "vitest";
import { cachedLookup } from "../../src/own-connection.js";

type Callback = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;

/** A name server that answers when the test says so. */
function held(): { lookup: typeof systemLookup; asked: { hostname: string; answer: Callback }[] } {
  const asked: { hostname: string; answer: Callback }[] = [];
  const lookup = (hostname: string, _options: object, answer: Callback) => void asked.push({ hostname, answer });
  return { lookup: lookup as unknown as typeof systemLookup, asked };
}

describe("LS-30 the address is cached", () => {
  it("the first lookup waits for the name server; later ones are answered at once, while it is asked again", async () => {
    const { lookup, asked } = held();
    const cached = cachedLookup(lookup);
    const ask = (host = "db", all = false) => {
      const answers: unknown[] = [];
      cached(host, { all }, (error, address, family) => answers.push(error?.code ?? [address, family]));
      return answers;
    };
    const turn = () => new Promise<void>((resolve) => process.nextTick(resolve));
    const first = ask();
    await turn();
    expect(first).toEqual([]);
    asked[0]!.answer(null, "10.0.0.1", 4);
    expect(first).toEqual([["10.0.0.1", 4]]);
    const second = ask();
    expect(second).toEqual([]);
    await turn();
    // The name server has not answered, and need not.
    expect(second).toEqual([["10.0.0.1", 4]]);
    asked[1]!.answer(null, "10.0.0.2", 4);
    expect(second).toHaveLength(1);
    const third = ask();
    await turn();
    expect(third).toEqual([["10.0.0.2", 4]]);
    // One that fails takes nothing away.
    asked[2]!.answer(Object.assign(new Error("gone"), { code: "EAI_AGAIN" }), "", 0);
    const fourth = ask();
    await turn();
    expect(fourth).toEqual([["10.0.0.2", 4]]);
    // Other questions are others.
    expect([ask("other"), ask("db", true)]).toEqual([[], []]);
    await turn();
    expect(asked.map(({ hostname }) => hostname)).toEqual(["db", "db", "db", "db", "other", "db"]);
    const failing = ask("gone");
    asked.at(-1)!.answer(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }), "", 0);
    expect(failing).toEqual(["ENOTFOUND"]);
  });
});
