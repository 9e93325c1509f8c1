// Goal: a socket that writes in pieces sends the bytes it was given, in their order, no more than a piece at a time, and none that its
// request may not write. Method: Node's own Writable over a sink that records, which answers at once or later, as a socket does.
import type { Socket } from "node:net";
import { Writable } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Permit } from "../../src/call.js";
import { dropPermit, pieceBytes, securePieceBytes, setPermit } from "../../src/node-http/pieces.js";

type Done = (error?: Error | null) => void;

/** What a socket is to a stream: writes go to `taken`, each answered at once or in a later turn. */
class Sink extends Writable {
  readonly taken: Buffer[] = [];
  failing: Error | null = null;
  readonly #later: boolean;

  constructor(later: boolean) {
    super({ decodeStrings: false });
    this.#later = later;
  }

  override _write(chunk: Buffer | string, encoding: string, done: Done): void {
    this.taken.push(typeof chunk === "string" ? Buffer.from(chunk, encoding as BufferEncoding) : chunk);
    if (typeof chunk !== "string") expect(encoding).toBe("buffer");
    this.#answer(done);
  }

  override _writev(chunks: { chunk: Buffer | string; encoding: BufferEncoding }[], done: Done): void {
    this.taken.push(Buffer.concat(chunks.map((one) => Buffer.from(one.chunk as string, one.encoding))));
    this.#answer(done);
  }

  #answer(done: Done): void {
    if (this.#later) setImmediate(done, this.failing);
    else done(this.failing);
  }

  bytes(): number {
    return this.taken.reduce((sum, { length }) => sum + length, 0);
  }
}

const paced = (sink: Sink, permit: () => Permit): Sink => {
  setPermit(sink as unknown as Socket, permit);
  return sink;
};

/** Chunks as node:http writes them: headers and text in either encoding, bodies of bytes. */
const chunk = fc.oneof(
  fc.string({ maxLength: 300 }).map((text) => ({ data: text, encoding: "utf8" as const })),
  fc
    .tuple(fc.constantFrom("a", "ü", "水", "🦆"), fc.nat(60_000), fc.constantFrom("utf8" as const, "latin1" as const))
    .map(([unit, times, encoding]) => ({ data: unit.repeat(times), encoding })),
  fc
    .tuple(fc.nat(255), fc.nat(4 * pieceBytes))
    .map(([byte, length]) => ({ data: Buffer.alloc(length, byte), encoding: "utf8" as const })),
);

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const bytesOf = ({ data, encoding }: { data: string | Buffer; encoding: BufferEncoding }): Buffer =>
  typeof data === "string" ? Buffer.from(data, encoding) : data;

describe("a socket that writes in pieces", () => {
  it("DL-03 sends every byte in its order, at most a piece at a time and as few as that allows", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(chunk, { maxLength: 9 }), fc.boolean(), fc.boolean(), async (chunks, later, corked) => {
        let asked = 0;
        const sink = paced(new Sink(later), () => ((asked += 1), "go-on"));
        if (corked) sink.cork();
        for (const one of chunks) sink.write(one.data, one.encoding);
        if (corked) process.nextTick(() => sink.uncork());
        await new Promise<void>((resolve) => sink.end(resolve));
        expect(Buffer.concat(sink.taken).equals(Buffer.concat(chunks.map(bytesOf)))).toBe(true);
        for (const piece of sink.taken) expect(piece.length).toBeLessThanOrEqual(pieceBytes);
        expect(asked).toBe(sink.taken.length);
        if (!corked) return;
        // No two neighbours fit into one piece, unless one of them is the end of a chunk that was cut.
        const cut = chunks.filter((one) => bytesOf(one).length > pieceBytes).length;
        expect(sink.taken.length).toBeLessThanOrEqual(2 * Math.ceil(sink.bytes() / pieceBytes) + 2 * cut + 1);
      }),
      { numRuns: 200 },
    );
  });

  it("DL-03 small chunks go out together: the rows of a long insert cost no write each", async () => {
    const sink = paced(new Sink(true), () => "go-on");
    sink.cork();
    for (let i = 0; i < 4_000; i++) sink.write(`{"row":${i},"text":"${"x".repeat(80)}"}\n`);
    process.nextTick(() => sink.uncork());
    await new Promise<void>((resolve) => sink.end(resolve));
    expect(sink.taken.length).toBeLessThanOrEqual(Math.ceil(sink.bytes() / (pieceBytes - 200)));
  });

  it("DL-03 Node's empty end of a body is no piece of its own, and pieces are larger over TLS", async () => {
    for (const [encrypted, most] of [
      [false, pieceBytes],
      [true, securePieceBytes],
    ] as const) {
      const sink = new Sink(false);
      if (encrypted) Object.assign(sink, { encrypted });
      paced(sink, () => "go-on");
      sink.cork();
      for (const data of ["head", Buffer.alloc(4 * most), "", ""]) sink.write(data);
      process.nextTick(() => sink.uncork());
      await new Promise<void>((resolve) => sink.end(resolve));
      expect(sink.taken.map(({ length }) => length)).toEqual([4, most, most, most, most]);
    }
  });

  it("DL-03 a stream that only writes several chunks at once is written to by that", async () => {
    const taken: string[] = [];
    const sink = new Writable({
      decodeStrings: false,
      writev: (chunks, done) => {
        taken.push(chunks.map(({ chunk }) => String(chunk)).join("+"));
        done();
      },
    });
    setPermit(sink as unknown as Socket, () => "go-on");
    sink.write("alone");
    sink.cork();
    for (const text of ["two", "three"]) sink.write(text);
    process.nextTick(() => sink.uncork());
    await new Promise<void>((resolve) => sink.end(resolve));
    expect(taken).toEqual(["alone", "two+three"]);
  });

  it("DL-03 a socket that cannot write several chunks at once writes them one by one", async () => {
    const sink = new Sink(false);
    Object.assign(sink, { _writev: null });
    paced(sink, () => "go-on");
    sink.cork();
    for (const text of ["one ", "two ", "three"]) sink.write(text);
    process.nextTick(() => sink.uncork());
    await new Promise<void>((resolve) => sink.end(resolve));
    expect(sink.taken.map(String)).toEqual(["one ", "two ", "three"]);
  });

  it("DL-03 a write that has to wait asks again, and is ended by what its call comes to", async () => {
    for (const end of ["go-on", "cut"] as const) {
      let left = 3;
      let then: Permit = "wait";
      const sink = paced(new Sink(true), () => (left-- > 0 ? "go-on" : then));
      const told: unknown[] = [];
      sink.on("error", (error) => told.push(error));
      sink.write(Buffer.alloc(10 * pieceBytes));
      // A turn for every piece there is, and more.
      for (let turn = 0; turn < 20; turn++) await nextTurn();
      expect(sink.bytes()).toBe(3 * pieceBytes);
      expect(sink.destroyed).toBe(false);
      then = end;
      for (let turn = 0; turn < 20; turn++) await nextTurn();
      expect(sink.bytes()).toBe((end === "cut" ? 3 : 10) * pieceBytes);
      expect(sink.destroyed).toBe(end === "cut");
      // Whoever cuts it off has been told why already.
      expect(told).toEqual([]);
    }
  });

  it("DL-03 asks for small writes too: a stream of rows ends with the permit", async () => {
    let permit: Permit = "go-on";
    const sink = paced(new Sink(false), () => permit);
    sink.write("a row");
    permit = "wait";
    sink.write("another");
    await nextTurn();
    sink.cork();
    sink.write("and ");
    sink.write("more");
    sink.uncork();
    await nextTurn();
    expect(Buffer.concat(sink.taken).toString()).toBe("a row");
    permit = "cut";
    await nextTurn();
    expect(sink.destroyed).toBe(true);
  });

  it("DL-03 a body of any length leaves the stack and the event loop alone, and a write that fails is told once", async () => {
    const long = paced(new Sink(false), () => "go-on");
    let turns = 0;
    let over = false;
    const written = new Promise<void>((resolve) => long.write(Buffer.alloc(320 * pieceBytes), () => resolve()));
    void written.then(() => (over = true));
    for (; !over; turns++) await nextTurn();
    expect(long.bytes()).toBe(320 * pieceBytes);
    expect(turns).toBeGreaterThanOrEqual(20);
    const failing = paced(new Sink(false), () => "go-on");
    failing.failing = new Error("EPIPE");
    const errors: unknown[] = [];
    failing.on("error", (error) => errors.push(error));
    failing.write(Buffer.alloc(3 * pieceBytes));
    await nextTurn();
    expect(errors).toEqual([failing.failing]);
    expect(failing.bytes()).toBe(pieceBytes);
  });

  it("DL-03 serves the next request under its own permit, and one without any", async () => {
    const first = (): Permit => "wait";
    let asked = 0;
    const second = (): Permit => ((asked += 1), "go-on");
    const sink = paced(new Sink(false), first);
    const socket = sink as unknown as Socket;
    setPermit(socket, second);
    // Late news of the first takes nothing from the second.
    dropPermit(socket, first);
    sink.write("second");
    expect(asked).toBe(1);
    setPermit(socket, first);
    dropPermit(socket, first);
    sink.write(", unwatched");
    await nextTurn();
    expect(Buffer.concat(sink.taken).toString()).toBe("second, unwatched");
  });
});
