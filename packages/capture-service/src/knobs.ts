import { CaptureError } from "./errors.js";

/** Reads the settings of one section and refuses, by full path, what they cannot be. */
export class Knobs {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(
    readonly path: string,
    values: unknown,
  ) {
    if (values !== undefined && (typeof values !== "object" || values === null)) {
      throw new CaptureError(
        "CONFIG_INVALID",
        `${path || "the configuration"} is ${shown(values)}; it must be an object.`,
      );
    }
    this.#values = { ...values };
  }

  /** CONFIG_INVALID about one setting. */
  wrong(name: string, is: string, must: string): CaptureError {
    return new CaptureError("CONFIG_INVALID", `${this.#full(name)} is ${is}; it must be ${must}.`);
  }

  has(name: string): boolean {
    return this.#values[name] !== undefined;
  }

  /** Refuses names that nobody reads: mostly a slip of the pen. `known`: names with a space between. */
  only(known: string): void {
    const names = known.split(" ");
    const unknown = Object.keys(this.#values).find((name) => !names.includes(name));
    if (unknown === undefined) return;
    throw new CaptureError(
      "CONFIG_INVALID",
      `${this.#full(unknown)} is not a setting; there are: ${names.map((name) => this.#full(name)).join(", ")}.`,
    );
  }

  section(name: string): Knobs {
    return new Knobs(this.#full(name), this.#values[name]);
  }

  whole(name: string, o: { least: number; most: number; otherwise: number }): number {
    const value = this.#values[name];
    if (value === undefined) return o.otherwise;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= o.least && value <= o.most) return value;
    const most = o.most === Number.MAX_SAFE_INTEGER ? "" : ` to ${o.most}`;
    throw this.wrong(name, shown(value), `a whole number from ${o.least}${most}${most === "" ? " up" : ""}`);
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.#values[name];
    if (value === undefined) return otherwise;
    if (typeof value === "boolean") return value;
    throw this.wrong(name, shown(value), "true or false");
  }

  choice<const C extends string>(name: string, choices: readonly C[], otherwise: C): C {
    const value = this.#values[name];
    if (value === undefined) return otherwise;
    const found = choices.find((choice) => choice === value);
    if (found !== undefined) return found;
    throw this.wrong(name, shown(value), choices.map((choice) => `"${choice}"`).join(" or "));
  }

  text(name: string): string {
    const value = this.#values[name];
    if (typeof value === "string" && value !== "") return value;
    throw this.wrong(
      name,
      value === undefined ? "missing" : typeof value === "string" ? "empty" : shown(value),
      "a text",
    );
  }

  /** Those of the optional texts that are given. Their values never stand in an error: one may be a password. */
  texts<const N extends string>(...names: readonly N[]): { readonly [K in N]?: string } {
    const given: { [K in N]?: string } = {};
    for (const name of names) {
      const value = this.#values[name];
      if (value === undefined) continue;
      if (typeof value !== "string") throw this.wrong(name, `a ${typeof value}`, "a text");
      given[name] = value;
    }
    return given;
  }

  #full(name: string): string {
    return this.path === "" ? name : `${this.path}.${name}`;
  }
}

function shown(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "string") return JSON.stringify(value.slice(0, 60));
  if (typeof value === "number" || typeof value === "boolean" || value === null || value === undefined)
    return String(value);
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}
