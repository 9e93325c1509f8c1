// What the runner of mutants must be able to say, shown anew in each of its runs: that a mutant survived, and that one was
// not judged at all. A runner that called these killed would call everything killed.
const call = "packages/deadline-http/src/call.ts";
const judge = {
  project: "unit",
  test: "packages/deadline-http/test/unit/call.test.ts",
  title: "pauses 100 ms, doubling to 1 s, as often as the budget says",
};

/** @type {readonly (import("../../scripts/mutants/lists.mjs").Mutant & { expected: string })[]} */
export const canaries = [
  {
    name: "nothing observable changes",
    file: call,
    find: `const firstPauseMs = 100;`,
    replace: `const firstPauseMs = 99 + 1;`,
    ...judge,
    expected: "survived",
  },
  {
    name: "the source does not load",
    file: call,
    find: `const firstPauseMs = 100;`,
    replace: `const firstPauseMs = ;`,
    ...judge,
    expected: "not judged",
  },
  {
    name: "the test hangs",
    file: "packages/deadline-http/src/scope-run.ts",
    find: `resolve(value);`,
    replace: ``,
    project: "unit",
    test: "packages/deadline-http/test/unit/scope.test.ts",
    title: "DL-04 is asked again before each attempt",
    expected: "not judged",
  },
  {
    name: "what is to be replaced is not there",
    file: call,
    find: `const firstPauseMs = 101;`,
    replace: `const firstPauseMs = 1;`,
    ...judge,
    expected: "not judged",
  },
  {
    name: "a pause is shorter",
    file: call,
    find: `const firstPauseMs = 100;`,
    replace: `const firstPauseMs = 99;`,
    ...judge,
    expected: "killed",
  },
];
