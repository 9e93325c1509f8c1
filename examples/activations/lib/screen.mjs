// Everything that a person sees. Lines fit 80 columns; the progress bar appears on a terminal only.
import cliProgress from "cli-progress";
import Table from "cli-table3";

let waiting = false; // a line that says what is awaited is on the screen and gives way to the next
const clearLine = () => {
  if (waiting) process.stdout.write("\r\u001b[2K");
  waiting = false;
};
const out = (text = "") => {
  clearLine();
  process.stdout.write(`${text}\n`);
};
const label = (name) => `  ${name.padEnd(11)}`;
const count = (n) => Number(n).toLocaleString("en-US");
// Tables with one line under the head and none between the rows.
const style = { head: [], border: [], "padding-left": 1, "padding-right": 1, compact: true };
let activeBar = null;

const indented = (table) => table.toString().replace(/^/gm, "  ");
const norm = (values) => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0)).toFixed(3);

export const screen = {
  title: (text) => out(`\n${text}\n`),
  fact: (name, text) => out(`${label(name)}${text}`),

  /** Says what is awaited, on a terminal only, until the next line comes. */
  waiting(text) {
    if (!process.stdout.isTTY) return;
    clearLine();
    process.stdout.write(`${label("...")}${text}`);
    waiting = true;
  },

  recovered({ id, acknowledged, recovered, found, before }) {
    out(
      `${label("recovered")}${count(recovered)} of ${count(acknowledged)} acknowledged records of ${id}, bit for bit`,
    );
    out(`${label("")}${count(before)} could be found already, ${count(found - before)} were brought in now`);
  },

  /** A progress bar over `total` frames; does nothing where the output is no terminal. */
  bar(total) {
    if (!process.stdout.isTTY) return { update: () => undefined, stop: () => undefined };
    clearLine();
    const format = `${label("listening")}{bar} {value}/{total} frames`;
    const bar = new cliProgress.SingleBar(
      { format, barsize: 36, hideCursor: true, clearOnComplete: true, stream: process.stdout },
      cliProgress.Presets.shades_classic,
    );
    bar.start(total, 0);
    activeBar = bar;
    return { update: (n) => bar.update(n), stop: () => screen.clear() };
  },
  /** Takes the bar off the screen, whatever happened. */
  clear() {
    clearLine();
    activeBar?.stop();
    activeBar = null;
  },

  stopped({ acknowledged, frames }, total) {
    out(
      `${label("stopped")}after ${count(frames)} of ${count(total)} frames; ${count(acknowledged)} records are acknowledged and kept.`,
    );
    out(`${label("")}Run it again: they are recovered first.`);
  },

  /** How surely each moment of the recording is speech, as a line of bars: the highest value of what falls into each. */
  curve(speechByStep, seconds) {
    const speech = [...speechByStep.entries()].sort(([a], [b]) => Number(a - b)).map(([, value]) => value);
    const bars = " ▁▂▃▄▅▆▇█";
    const width = Math.min(64, speech.length);
    const highest = Array.from({ length: width }, (_, i) => {
      const part = speech.slice(Math.floor((i * speech.length) / width), Math.floor(((i + 1) * speech.length) / width));
      return bars[Math.round(Math.max(...part) * (bars.length - 1))];
    });
    const end = `${seconds.toFixed(1)} s`;
    out(`\n${label("speech")}${highest.join("")}`);
    out(`${label("")}0 s${end.padStart(width - 3)}`);
  },

  frames(rows, wav) {
    out("\nWhich ten frames are most surely speech, and what was the model's state?\n");
    const table = new Table({
      head: ["at", "frame", "speech", "state tensor", "norm h", "norm c", "h begins"],
      colAligns: ["right", "right", "right", "left", "right", "right", "left"],
      style,
    });
    for (const { step, speech, record, values } of rows) {
      const at = `${wav.startsAt(Number(step)).toFixed(2)} s`;
      const half = values.length / 2; // a recurrent state has two parts: hidden (h) and cell (c)
      const tensor = `${record.fields.dtype}[${record.fields.shape.join(",")}]`;
      const first = values[0].toFixed(3).padStart(6);
      table.push([at, step, speech.toFixed(5), tensor, norm(values.slice(0, half)), norm(values.slice(half)), first]);
    }
    out(indented(table));
  },

  summary({ records, recordsOfAllRuns, packKeys, bytes, packBytes, version, seconds }) {
    const table = new Table({ colAligns: ["left", "right"], style });
    table.push(
      ["records of this run", count(records)],
      ["records of all runs", count(recordsOfAllRuns)],
      ["packs", count(packKeys.length)],
      ["bytes of activations", count(bytes)],
      ["bytes of packs", count(packBytes)],
      ["snapshot version", String(version)],
      ["seconds", seconds.toFixed(1)],
    );
    out(`\n${indented(table)}\n`);
  },
  verdict: (verified, expected) => out(`verified ${verified} of ${expected} records`),
};
