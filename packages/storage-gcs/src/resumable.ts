import { detached } from "@holdfast/deadline-http";
import { asError, untilAborted } from "@holdfast/object-store";
import { sessionAddress, uploadAddress } from "./api.js";
import { BodyReader } from "./body.js";
import { corrupt, goneStatuses, nothingStored, type Failure } from "./failure.js";
import type { Settings } from "./options.js";
import { conditionOf, describe, plainType, type Put } from "./put-state.js";
import { ask, pause, sendRepeatedly, type Answer, type Attempted } from "./requests.js";

/** How long deleting a session may take; it does not end with the caller, who may be gone already. */
const cancelMs = 5_000;

/**
 * One object through an upload session. Nothing is at the key before the last chunk has arrived, which the condition of the session and the
 * checksum of the whole object are compared with; whatever ends the upload before that deletes the session.
 */
export async function uploadInSession(s: Settings, put: Put, crc32c: string): Promise<Attempted<Answer>> {
  const begun = await begin(s, put, crc32c);
  if (begun.failure !== undefined) return begun;
  const reader = new BodyReader(put.body, put.signal);
  try {
    const done = await new Session(s, put, begun.value, reader).run();
    // Safe even if the upload did succeed: deleting a completed session does not delete the object.
    if (done.failure !== undefined) await cancel(s, put, begun.value);
    return done;
  } finally {
    reader.close();
  }
}

async function begin(s: Settings, put: Put, crc32c: string): Promise<Attempted<string>> {
  const { mode, contentType = plainType } = put.options;
  const what = `begin of the upload of ${JSON.stringify(put.key)}`;
  const done = await sendRepeatedly(s, put.signal, () =>
    ask(s, {
      what,
      signal: put.signal,
      method: "POST",
      address: uploadAddress(s, { uploadType: "resumable", name: s.keyPrefix + put.key, ...conditionOf(mode) }),
      headers: {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": contentType,
        "X-Upload-Content-Length": String(put.size),
      },
      body: describe(s, put, crc32c),
      absent: typeof mode === "object" ? "object" : "bucket",
      conditional: mode !== "overwrite",
    }),
  );
  // Without its address no one can send bytes to the session, so nothing can appear at the key.
  if (done.failure !== undefined) return { failure: { ...done.failure, stored: "no" } };
  const address = sessionAddress(s, done.value.headers["location"] ?? "");
  if (done.value.headers["location"] !== undefined && address !== null) return { value: address };
  return { failure: nothingStored(corrupt(what, "the answer has no address for the bytes")) };
}

/** The requests of one session, from its beginning to its end. */
class Session {
  /** Up to here the server has the bytes, by its own word. */
  #offset = 0;
  /** Up to here bytes have been sent. */
  #sent = 0;
  /** Requests in a row after which the server had nothing more. */
  #stuck = 0;
  /** The last bytes have been sent, and no answer has said what became of them. */
  #maybe = false;

  constructor(
    readonly s: Settings,
    readonly put: Put,
    readonly address: string,
    readonly reader: BodyReader,
  ) {}

  async run(): Promise<Attempted<Answer>> {
    for (;;) {
      const sent = await this.#sendChunk();
      const done = sent.failure === undefined ? sent : await this.#recover(sent.failure);
      if (done.failure !== undefined) return { failure: this.#judged(done.failure) };
      if (done.value.status !== 308) return done;
      const failure = this.#moveTo(done.value, sent.failure);
      if (failure !== null) return { failure: this.#judged(failure) };
    }
  }

  async #sendChunk(): Promise<Attempted<Answer>> {
    const { put } = this;
    const length = Math.min(this.s.resumable.chunkBytes, put.size - this.#offset);
    // All bytes are there, and the object is not: the server is asked, and says so or that it has fewer.
    if (length === 0) return this.#askHowFar();
    const last = this.#offset + length === put.size;
    let body: Buffer;
    try {
      body = await this.reader.part(this.#offset, length);
    } catch (error) {
      return { failure: nothingStored(asError(error)) };
    }
    this.#sent = Math.max(this.#sent, this.#offset + length);
    const done = await this.#send(`bytes ${this.#offset}-${this.#offset + length - 1}/${put.size}`, body, last);
    if (last && done.failure?.stored === "maybe") this.#maybe = true;
    return done;
  }

  /** After a chunk that failed: how far the server is, when asking can help; else the failure. */
  async #recover(failure: Failure): Promise<Attempted<Answer>> {
    let cause = failure;
    for (;;) {
      // A session whose bytes do not have the checksum (400) keeps them, and one that is gone stays so: only another one can do better.
      if (!cause.again || cause.status === 400 || isGone(cause)) return { failure: cause };
      if (++this.#stuck >= this.s.attempts) return { failure: cause };
      const ended = await pause(this.s, this.put.signal, this.#stuck);
      if (ended !== null) return { failure: { ...cause, error: ended, again: false } };
      const far = await this.#askHowFar();
      if (far.failure === undefined) return far;
      cause = far.failure;
    }
  }

  #askHowFar(): Promise<Attempted<Answer>> {
    return this.#send(`bytes */${this.put.size}`, undefined, this.#maybe);
  }

  #send(range: string, body: Buffer | undefined, last: boolean): Promise<Attempted<Answer>> {
    return ask(this.s, {
      what: `upload of ${JSON.stringify(this.put.key)}`,
      signal: this.put.signal,
      method: "PUT",
      address: this.address,
      headers: { "Content-Range": range },
      ...(body === undefined ? {} : { body }),
      absent: "session",
      conditional: this.put.options.mode !== "overwrite",
      ...(last ? { progress: this.put.progress } : {}),
    });
  }

  /** Continues where the server says that it is; a failure when it says what cannot be, or has nothing more again and again. */
  #moveTo({ headers }: Answer, cause: Failure | undefined): Failure | null {
    const what = `upload of ${JSON.stringify(this.put.key)}`;
    const kept = keptBytes(headers["range"]);
    if (kept === null || kept > this.#sent) {
      return nothingStored(corrupt(what, "the server says that it has bytes which were never sent"));
    }
    if (kept > this.#offset) this.#stuck = 0;
    // A request that failed has been counted.
    else if (cause === undefined) this.#stuck++;
    this.#offset = kept;
    // All bytes are there, and it may make the object of them at any moment.
    if (kept === this.put.size) this.#maybe = true;
    if (this.#stuck < this.s.attempts) return null;
    const why = `the server kept nothing of ${this.#stuck} requests, and has ${kept} bytes`;
    return cause ?? nothingStored(corrupt(what, why));
  }

  /** A failure of the upload, with what may have become of the last bytes: no other request of a session makes an object. */
  #judged(failure: Failure): Failure {
    return { ...failure, stored: this.#maybe ? "maybe" : "no" };
  }
}

const isGone = ({ status }: Failure): boolean => goneStatuses.has(status);

/** How many bytes a 308 says that the server has; null when it says it in no known way. */
function keptBytes(range: string | undefined): number | null {
  if (range === undefined) return 0;
  const last = /^bytes=0-(\d{1,15})$/.exec(range)?.[1];
  return last === undefined ? null : Number(last) + 1;
}

/** Deletes a session, detached from the caller's scope and under its own bound. One that cannot be deleted expires by itself within a week. */
async function cancel(s: Settings, put: Put, address: string): Promise<void> {
  const work = detached(async () => {
    const end = new AbortController();
    const timer = s.clock.setTimer(cancelMs, () => end.abort(), { unref: true });
    try {
      const what = `end of the upload of ${JSON.stringify(put.key)}`;
      const request = { what, signal: end.signal, method: "DELETE", address, absent: "session" } as const;
      const sent = sendRepeatedly<unknown>(s, end.signal, async () => {
        const done = await ask(s, request);
        // 499 is the answer of GCS to a session that it has deleted.
        return done.failure !== undefined && isGone(done.failure) ? { value: null } : done;
      });
      await untilAborted(sent, end.signal);
    } finally {
      timer.cancel();
    }
  });
  // The put has already failed for another reason; that is what the caller has to know.
  await work.catch(() => undefined);
}
