// Partial responses: `fields=items(name,size),nextPageToken`.

/** The selected fields, each with what is selected of its value; `null`: all of it. */
type Selection = Map<string, Selection | null>;

/**
 * What `fields` selects of an answer: names with commas between them, `a/b` and `a(b,c)` for what is inside, `*` for every name. An empty or missing
 * selection is everything. Of a list, each element is reduced.
 * @internal
 */
export function select(value: unknown, fields: string | null): unknown {
  return fields === null || fields === "" ? value : reduced(value, new Parser(fields).list());
}

function reduced(value: unknown, selection: Selection): unknown {
  if (Array.isArray(value)) return value.map((one: unknown) => reduced(one, selection));
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).flatMap(([name, own]: [string, unknown]) => {
    const inside = selection.get(name) ?? selection.get("*");
    if (inside === undefined && !selection.has(name) && !selection.has("*")) return [];
    return [[name, inside ? reduced(own, inside) : own] as const];
  });
  return Object.fromEntries(kept);
}

class Parser {
  #at = 0;

  constructor(readonly text: string) {}

  list(): Selection {
    const selection: Selection = new Map();
    for (;;) {
      const [name, inside] = this.#one();
      selection.set(name, inside);
      if (this.text[this.#at] !== ",") return selection;
      this.#at += 1;
    }
  }

  #one(): [string, Selection | null] {
    const [name = ""] = /^[^,()/]*/.exec(this.text.slice(this.#at)) ?? [];
    this.#at += name.length;
    const next = this.text[this.#at];
    if (next !== "/" && next !== "(") return [name.trim(), null];
    this.#at += 1;
    if (next === "/") return [name.trim(), new Map([this.#one()])];
    const inside = this.list();
    if (this.text[this.#at] === ")") this.#at += 1;
    return [name.trim(), inside];
  }
}
