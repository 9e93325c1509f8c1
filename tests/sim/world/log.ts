/** What happened in a run, as a hash (always) and as text (when somebody wants to read it). */
export class EventLog {
  readonly lines: string[] = [];
  readonly #keep: boolean;
  #high = 0x243f6a88;
  #low = 0x85a308d3;
  #events = 0;

  constructor(keep: boolean) {
    this.#keep = keep;
  }

  add(trueMs: number, machine: number, what: string, a: number | string = 0, b: number | string = 0): void {
    this.#events += 1;
    this.#mix(Math.round(trueMs * 1000));
    this.#mix(machine);
    this.#text(what);
    this.#value(a);
    this.#value(b);
    if (!this.#keep) return;
    const on = machine < 0 ? "world" : `m${machine}`;
    this.lines.push(`${trueMs.toFixed(3).padStart(12)} ${on.padEnd(6)} ${what} ${String(a)} ${String(b)}`);
  }

  /** More about the newest event, for readers: not a part of the hash. A number is ms; its text is made only if somebody reads. */
  note(text: string | number): void {
    if (!this.#keep) return;
    const last = this.lines.pop();
    if (last !== undefined) this.lines.push(`${last}: ${typeof text === "number" ? `${text} ms` : text}`);
  }

  get events(): number {
    return this.#events;
  }

  get hash(): string {
    return (this.#high >>> 0).toString(16).padStart(8, "0") + (this.#low >>> 0).toString(16).padStart(8, "0");
  }

  #value(value: number | string): void {
    if (typeof value === "number") this.#mix(Math.round(value * 1000));
    else this.#text(value);
  }

  #text(text: string): void {
    for (let at = 0; at < text.length; at++) this.#mix(text.charCodeAt(at));
  }

  #mix(value: number): void {
    this.#high = Math.imul(this.#high ^ value, 0x9e3779b1) ^ (this.#low >>> 13);
    this.#low = Math.imul(this.#low ^ Math.floor(value / 0x1_0000_0000) ^ this.#high, 0x85ebca6b);
  }
}
