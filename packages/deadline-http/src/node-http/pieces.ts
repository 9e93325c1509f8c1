import type { Socket } from "node:net";
import type { Permit } from "../call.js";

/**
 * Bytes that one write hands over at most. What the kernel does not take of a write waits in the event loop's own queue, and leaves from
 * there before any code of ours runs: after a stall that is the most that can leave past a deadline. Smaller costs more calls.
 */
export const pieceBytes = 64 * 1024;

type Done = (error?: Error | null) => void;
interface Chunk {
  readonly chunk: Uint8Array | string;
  /** As streams say it: of bytes, "buffer". */
  readonly encoding: BufferEncoding | "buffer";
}

/** The two methods by which a stream writes (node:stream, "Implementing a Writable Stream"), as a socket has them. */
interface Sink {
  _write(chunk: Chunk["chunk"], encoding: Chunk["encoding"], done: Done): void;
  _writev?: ((chunks: readonly Chunk[], done: Done) => void) | null;
}

/** Sockets whose writes go out in pieces. One stays so for its life, whoever's requests it carries. */
const paced = new WeakMap<Socket, PacedSocket>();

/**
 * From here on `socket` writes pieces, and asks before each whether the request that it carries may write on; null: that one is not
 * watched. The permit counts until the next.
 */
export function setPermit(socket: Socket, permit: (() => Permit) | null): void {
  const pieces = paced.get(socket);
  if (pieces) pieces.permit = permit;
  else if (permit) paced.set(socket, new PacedSocket(socket, permit));
}

/** Takes a permit back when its request is done with the socket, unless the next one has set its own. */
export function dropPermit(socket: Socket, permit: () => Permit): void {
  const pieces = paced.get(socket);
  if (pieces?.permit === permit) pieces.permit = null;
}

class PacedSocket {
  readonly #write: Sink["_write"];

  constructor(
    readonly socket: Socket,
    public permit: (() => Permit) | null,
  ) {
    const sink = socket as unknown as Sink;
    this.#write = sink._write.bind(socket);
    const writev = sink._writev?.bind(socket);
    sink._write = (chunk, encoding, done) => this.#pieces([{ chunk, encoding }], done);
    if (!writev) return;
    sink._writev = (chunks, done) => {
      if (sizeMax(chunks) > pieceBytes) this.#pieces(chunks, done);
      else if (this.#mayGoOn()) writev(chunks, done);
    };
  }

  #pieces(chunks: readonly Chunk[], done: Done): void {
    const pieces = split(chunks);
    const next = (error?: Error | null): void => {
      const piece = error ? null : pieces.next().value;
      if (!piece) done(error);
      else if (this.#mayGoOn()) this.#write(piece.chunk, piece.encoding, later);
    };
    // A piece that the kernel takes at once is answered at once: without a tick between them a long body would fill the stack.
    const later: Done = (error) => process.nextTick(next, error);
    next();
  }

  /** False leaves the write unanswered: the stream asks for no more, and whoever destroys the socket ends it. */
  #mayGoOn(): boolean {
    const permit = this.permit?.() ?? "go-on";
    if (permit === "cut") this.socket.destroy();
    return permit === "go-on";
  }
}

/** No encoding makes more than three bytes of one unit of a string. */
const sizeMax = (chunks: readonly Chunk[]): number =>
  chunks.reduce((sum, { chunk }) => sum + (typeof chunk === "string" ? 3 * chunk.length : chunk.length), 0);

function* split(chunks: readonly Chunk[]): Generator<Chunk, undefined> {
  for (const one of chunks) {
    if (sizeMax([one]) <= pieceBytes) {
      yield one;
      continue;
    }
    const { chunk, encoding } = one;
    const bytes = typeof chunk === "string" ? Buffer.from(chunk, encoding as BufferEncoding) : chunk;
    for (let from = 0; from < bytes.length; from += pieceBytes) {
      yield { chunk: bytes.subarray(from, from + pieceBytes), encoding: "buffer" };
    }
  }
  return undefined;
}
