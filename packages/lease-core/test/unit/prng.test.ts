// Goal: ids are UUIDs whatever the source gives. Method: sources by hand.
import { expect, it } from "vitest";
import { randomHex, randomUuid } from "../../src/prng.js";

it.each([0, 0.5, 1 - Number.EPSILON])("a source that gives %d makes a version 4 UUID", (value) => {
  expect(randomUuid(() => value)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

// Red (it never ends) without the mask in hexByte.
it.each([1, -1, Number.NaN, Infinity])("a source that breaks its promise by %d ends all the same", (value) => {
  expect(randomHex(() => value, 6)).toMatch(/^[0-9a-f]{6}$/);
});
