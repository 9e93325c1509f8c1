import type { Socket } from "node:net";
import { Writable } from "node:stream";
import type { Permit } from "../call.js";

/**
 * Bytes that are handed to the kernel at once, at most. What it does not take of them waits in the event loop's own queue, and leaves
 * from there before any code of ours runs: after a stall that is the most that can leave the process past a bound. Smaller costs more calls.
 */
export const pieceBytes = 64 * 1024;

/** The same over TLS, where each costs a turn of the event loop: 64 KiB a turn would slow a busy process down. */
export const securePieceBytes = 256 * 1024;

/** Then the event loop gets a turn: a kernel that takes all at once would otherwise keep it for as long as a body lasts. */
const piecesPerTurn = 16;

type Done = (error?: Error | null) => void;
interface Chunk {
  readonly chunk: Uint8Array | string;
  /** As streams say it: of bytes, "buffer". */
  readonly encoding: BufferEncoding | "buffer";
}
type Chunks = readonly Chunk[];

/** The two methods by which a stream writes (node:stream, "Implementing a Writable Stream"), as a socket has them. */
interface Sink {
  _write(chunk: Chunk["chunk"], encoding: Chunk["encoding"], done: Done): void;
  /** Null where the socket cannot; a stream then writes its chunks one by one. */
  _writev?: ((chunks: Chunks, done: Done) => void) | null;
}

/** Sockets whose writes go out in pieces. One stays so for its life, whoever's requests it carries. */
const paced = new WeakMap<Socket, PacedSocket>();

/**
 * From here on `socket` writes pieces, and asks before each whether the request that it carries may write on; null: that one is not
 * watched. The permit counts until the next.
 */
export function setPermit(socket: Socket, permit: (() => Permit) | null): void {
  const known = paced.get(socket);
  if (known) known.permit = permit;
  else if (permit) paced.set(socket, new PacedSocket(socket, permit));
}

/** Takes a permit back when its request is done with the socket, unless the next one has set its own. */
export function dropPermit(socket: Socket, permit: () => Permit): void {
  const known = paced.get(socket);
  if (known?.permit === permit) known.permit = null;
}

class PacedSocket {
  readonly #write: Sink["_write"];
  readonly #writev: Sink["_writev"];
  /** A stream may have `_writev` alone: what it inherits as `_write` would come back here. */
  readonly #writes: boolean;
  readonly #pieceBytes: number;

  constructor(
    readonly socket: Socket,
    public permit: (() => Permit) | null,
  ) {
    const sink = socket as unknown as Sink;
    this.#write = sink._write.bind(socket);
    this.#writev = sink._writev?.bind(socket);
    this.#writes = socket._write !== Writable.prototype._write;
    this.#pieceBytes = "encrypted" in socket ? securePieceBytes : pieceBytes;
    sink._write = (chunk, encoding, done) => this.#send([{ chunk, encoding }], done);
    if (this.#writev) sink._writev = (chunks, done) => this.#send(chunks, done);
  }

  #send(chunks: Chunks, done: Done): void {
    const pieces = split(chunks, this.#pieceBytes);
    const first = pieces.next().value;
    if (!first || first === chunks) this.#hand(chunks, done);
    else this.#handAll(first, pieces, done);
  }

  #handAll(first: Chunks, rest: Iterator<Chunks, undefined>, done: Done): void {
    let count = 0;
    const handed: Done = (error) => {
      const piece = error ? undefined : rest.next().value;
      if (!piece) {
        done(error);
        return;
      }
      // What the kernel takes at once is answered at once: without a tick between the pieces a long body would fill the stack.
      const hand = (): void => this.#hand(piece, handed);
      if ((count += 1) % piecesPerTurn === 0) setImmediate(hand);
      else process.nextTick(hand);
    };
    this.#hand(first, handed);
  }

  /** One piece, as soon as its request may. */
  #hand(piece: Chunks, done: Done): void {
    const permit = this.permit?.() ?? "go-on";
    if (permit === "cut") this.socket.destroy();
    const [one] = piece;
    if (this.socket.destroyed) done(new Error("the connection was ended in the middle of a body"));
    else if (permit === "wait") setImmediate(() => this.#hand(piece, done));
    else if (this.#writev && (piece.length > 1 || !this.#writes)) this.#writev(piece, done);
    else if (one) this.#write(one.chunk, one.encoding, done);
  }
}

/** In the order of the chunks: those that fit into one piece together, or a part of one that fits into none. All, if all fit. */
function* split(chunks: Chunks, most: number): Generator<Chunks, undefined> {
  let from = 0;
  let bytes = 0;
  for (const [i, one] of chunks.entries()) {
    const size = sizeOf(one);
    if (size === 0 && i === from && i > 0) {
      // Node's http ends a body with an empty chunk: no piece of its own.
      from = i + 1;
      continue;
    }
    if (bytes + size <= most) {
      bytes += size;
      continue;
    }
    if (i > from) yield chunks.slice(from, i);
    [from, bytes] = [i, size];
    if (size <= most) continue;
    yield* parts(one, most);
    [from, bytes] = [i + 1, 0];
  }
  if (from === 0) yield chunks;
  else if (from < chunks.length) yield chunks.slice(from);
  return undefined;
}

function* parts({ chunk, encoding }: Chunk, most: number): Generator<Chunks, void> {
  const bytes = typeof chunk === "string" ? Buffer.from(chunk, encoding as BufferEncoding) : chunk;
  for (let at = 0; at < bytes.length; at += most) {
    yield [{ chunk: bytes.subarray(at, at + most), encoding: "buffer" }];
  }
}

const sizeOf = ({ chunk, encoding }: Chunk): number =>
  typeof chunk === "string" ? Buffer.byteLength(chunk, encoding as BufferEncoding) : chunk.length;
