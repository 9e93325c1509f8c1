import Table from "cli-table3";

/** 1234567 as 1,234,567. */
export function count(value: number | bigint): string {
  return value.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** `1 pack`, `2 packs`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

const units = ["B", "kB", "MB", "GB", "TB"] as const;

/** Bytes in decimal units with three figures at most: `999 B`, `1.02 kB`, `45.6 MB`. */
export function bytes(value: number | bigint): string {
  let number = Number(value);
  let unit = 0;
  while (number >= 999.5 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  const figures = unit === 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return `${number.toFixed(figures)} ${units[unit] ?? "B"}`;
}

/** How many a second, or 0 where no time passed. */
export function perSecond(value: number, ms: number): number {
  return ms <= 0 ? 0 : Math.round((value / ms) * 1000);
}

/** A length of time for a person: `340 ms`, `3.4 s`, `12 min`, `5.0 h`, `3.0 d`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms)).toString()} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000).toString()} min`;
  if (ms < 172_800_000) return `${(ms / 3_600_000).toFixed(1)} h`;
  return `${(ms / 86_400_000).toFixed(1)} d`;
}

/** Nanoseconds since 1970 as UTC to the millisecond: `2026-11-30 08:41:32.123`. Beyond what a Date holds, the number itself. */
export function timeOfNs(ns: bigint): string {
  const date = new Date(Number(ns / 1_000_000n));
  return Number.isNaN(date.getTime()) ? `${ns.toString()} ns` : date.toISOString().replace("T", " ").replace("Z", "");
}

/** Anything as JSON, 64-bit numbers as decimal strings and bytes as their length: a line that other programs can read. */
export function json(value: unknown): string {
  return JSON.stringify(value, (_key, v: unknown) => {
    if (typeof v === "bigint") return v.toString();
    return v instanceof Uint8Array ? { bytes: v.length } : v;
  });
}

// Control characters of a stored string could move the cursor or recolour the terminal of who looks at it.
const controls = /[\u0000-\u001f\u007f-\u009f]/g;

/** Of a table cell: a capture id is at most 512 bytes, and one that is cut could not be given to `get`. */
export const captureIdWidth = 512;

/** A field's value in a table cell: short, on one line, without control characters. */
export function cell(value: unknown, width = 40): string {
  const plain = typeof value === "string" || typeof value === "bigint";
  const text = plain ? value.toString() : (json(value) as string | undefined);
  const line = (text ?? "").replace(controls, "?");
  return line.length > width ? `${line.slice(0, width - 3)}...` : line;
}

/** Pairs of name and value, names aligned: the shape of all that is not a list. */
export function facts(rows: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}\n`).join("");
}

/** A table without colours and with few lines; columns of numbers are aligned right. */
export function table(
  columns: readonly { readonly head: string; readonly right?: boolean }[],
  rows: readonly (readonly string[])[],
): string {
  const none = "";
  const grid = new Table({
    head: columns.map((c) => c.head),
    colAligns: columns.map((c) => (c.right === true ? "right" : "left")),
    style: { head: [], border: [], "padding-left": 2, "padding-right": 0 },
    chars: {
      top: none,
      "top-mid": none,
      "top-left": none,
      "top-right": none,
      bottom: none,
      "bottom-mid": none,
      "bottom-left": none,
      "bottom-right": none,
      left: none,
      "left-mid": none,
      mid: none,
      "mid-mid": none,
      right: none,
      "right-mid": none,
      middle: none,
    },
  });
  grid.push(...rows.map((row) => [...row]));
  const lines = grid
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
  return `${lines.join("\n")}\n`;
}
