import type { Clock, Timer } from "@holdfast/deadline-http";
import { CaptureError } from "../errors.js";

type Waiter = {
  readonly bytes: number;
  readonly queued: number;
  readonly timer: Timer | null;
  readonly admit: () => void;
  readonly refuse: (error: CaptureError) => void;
};

/**
 * The books of a spool directory: no byte is written that was not reserved here first, so `spool.maxBytes` is never exceeded.
 *
 * Two budgets. `charged` is disk: files as they are, plus what has been reserved for records that are not written yet.
 * `queued` is memory: payload bytes that were admitted and are not on disk. When either is short, appends wait in line until
 * the admission timeout; when too many bytes wait, further ones are refused at once, so that memory stays bounded
 * while a disk is full or slow.
 */
export class Ledger {
  #charged = 0;
  #peak = 0;
  #queued = 0;
  #waitingBytes = 0;
  #held = false;
  readonly #waiting: Waiter[] = [];
  readonly #room: (() => void)[] = [];

  constructor(
    private readonly o: {
      readonly clock: Clock;
      readonly maxBytes: number;
      /** Kept free for the opening of the next file, so that what was admitted always finds a file to go into. */
      readonly headroom: number;
      readonly maxQueuedBytes: number;
      readonly admissionTimeoutMs: number;
    },
  ) {}

  /** Bytes charged now, reservations included. */
  get charged(): number {
    return this.#charged;
  }
  /** The most that was ever charged. */
  get peak(): number {
    return this.#peak;
  }
  get queued(): number {
    return this.#queued;
  }
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Charges what is on disk already, whatever the limit says: a start finds what it finds. */
  adopt(bytes: number): void {
    this.#charge(bytes);
  }

  /**
   * Takes room for a record, `bytes` of disk and `queued` of memory, waiting in line at most the admission timeout.
   * SPOOL_FULL: the timeout is 0, too much is waiting already, or it can never fit. ADMISSION_TIMEOUT: the wait was in vain.
   */
  admit(bytes: number, queued: number): Promise<void> {
    if (bytes + this.o.headroom > this.o.maxBytes)
      return Promise.reject(this.#full(bytes, "can never fit; split the batch"));
    if (this.#waiting.length === 0 && this.#fits(bytes, queued)) {
      this.#take(bytes, queued);
      return Promise.resolve();
    }
    if (this.o.admissionTimeoutMs === 0) return Promise.reject(this.#full(bytes, "do not fit now"));
    if (this.#waitingBytes + queued > 4 * this.o.maxQueuedBytes && this.#waiting.length > 0) {
      return Promise.reject(this.#full(bytes, `would wait behind ${this.#waitingBytes} bytes of other appends`));
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        bytes,
        queued,
        admit: resolve,
        refuse: reject,
        timer: this.o.clock.setTimer(this.o.admissionTimeoutMs, () => this.#expire(waiter)),
      };
      this.#waiting.push(waiter);
      this.#waitingBytes += queued;
    });
  }

  /** Turns away everyone in line. */
  refuseAll(error: CaptureError): void {
    for (const waiter of this.#waiting.splice(0)) {
      waiter.timer?.cancel();
      waiter.refuse(error);
    }
    this.#waitingBytes = 0;
  }

  /** Memory of records that are on disk now, or were refused. */
  dequeue(queued: number): void {
    this.#queued -= queued;
    this.#serve();
  }

  /** Moves a reservation to what the bytes really take; growth beyond it is charged too, and shows in `peak`. */
  settle(reserved: number, actual: number): void {
    this.#charge(actual - reserved);
    this.#serve();
  }

  /** Gives room back. */
  free(bytes: number): void {
    this.#charge(-bytes);
    this.#serve();
  }

  /** Takes room without waiting; false when there is none. Not bound to the line: what is admitted has to get on. */
  tryReserve(bytes: number): boolean {
    if (this.#charged + bytes > this.o.maxBytes) return false;
    this.#charge(bytes);
    return true;
  }

  /** While held, nobody is admitted: room that comes free is for what was admitted before. */
  hold(on: boolean): void {
    this.#held = on;
    if (!on) this.#serve();
  }

  /** Resolves at the next moment at which room was given back, or when the signal is aborted. */
  roomChanged(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) {
        resolve();
        return;
      }
      signal.addEventListener("abort", () => resolve(), { once: true });
      this.#room.push(resolve);
    });
  }

  #charge(bytes: number): void {
    this.#charged += bytes;
    this.#peak = Math.max(this.#peak, this.#charged);
  }

  #fits(bytes: number, queued: number): boolean {
    if (this.#held || this.#charged + bytes + this.o.headroom > this.o.maxBytes) return false;
    return this.#queued === 0 || this.#queued + queued <= this.o.maxQueuedBytes;
  }

  #take(bytes: number, queued: number): void {
    this.#charge(bytes);
    this.#queued += queued;
  }

  #serve(): void {
    for (const waker of this.#room.splice(0)) waker();
    for (;;) {
      const first = this.#waiting[0];
      if (first === undefined || !this.#fits(first.bytes, first.queued)) return;
      this.#drop(first);
      this.#take(first.bytes, first.queued);
      first.admit();
    }
  }

  #drop(waiter: Waiter): void {
    const at = this.#waiting.indexOf(waiter);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.#waitingBytes -= waiter.queued;
    waiter.timer?.cancel();
  }

  #expire(waiter: Waiter): void {
    this.#drop(waiter);
    waiter.refuse(
      new CaptureError(
        "ADMISSION_TIMEOUT",
        `no room for ${waiter.bytes} bytes within spool.admissionTimeoutMs of ${this.o.admissionTimeoutMs} ms: ${this.#state()}. ` +
          `The record was not taken: append it again later, or raise spool.maxBytes.`,
      ),
    );
    this.#serve();
  }

  #full(bytes: number, why: string): CaptureError {
    return new CaptureError(
      "SPOOL_FULL",
      `${bytes} bytes ${why}: ${this.#state()}. Nothing was taken: append again when packs have been uploaded, or raise spool.maxBytes.`,
    );
  }

  #state(): string {
    return `${this.#charged} of spool.maxBytes ${this.o.maxBytes} bytes are in use, ${this.#queued} of spool.maxQueuedBytes ${this.o.maxQueuedBytes} wait to be written`;
  }
}
