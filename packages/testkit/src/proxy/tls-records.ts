// Counts TLS records from their clear-text headers. Nothing is decrypted.

/** What one side of a connection sent, as far as the headers of TLS records tell. */
export interface TlsCount {
  /** Records of content type 22, the visible part of the handshake. */
  readonly handshakeRecords: number;
  /** Records of content type 23. In TLS 1.3 the hidden rest of the handshake is among them. */
  readonly applicationRecords: number;
  /** Bytes in them. */
  readonly applicationBytes: number;
  /**
   * Records of type 23 that carry something of the application: in TLS 1.2 all; in TLS 1.3 those after the first of this side
   * (the end of its handshake) that are not exactly as long as an alert. Exact for a client without a certificate that does
   * not split its Finished, and for requests above two bytes a record; for a server in TLS 1.3 an upper bound (certificate and
   * session tickets look the same).
   */
  readonly payloadRecords: number;
  /** When the first of them was complete at the proxy. */
  readonly payloadFirstAt: number | undefined;
  /** False once the bytes were no TLS records: then the other numbers mean nothing. */
  readonly isTls: boolean;
}

const handshake = 22;
const application = 23;
/** Level and description, the inner type, and the tag: how long an encrypted alert is in TLS 1.3. */
const alertBytes = 2 + 1 + 16;

/** Reads the records that one side sends. */
export class TlsRecords implements TlsCount {
  handshakeRecords = 0;
  applicationRecords = 0;
  applicationBytes = 0;
  payloadRecords = 0;
  payloadFirstAt: number | undefined = undefined;
  isTls = true;
  /** The server chose TLS 1.3; told by its side to both. */
  version13 = false;
  #rest: Buffer = Buffer.alloc(0);

  /** Reads bytes that came at `atMs`; true when a ServerHello that chooses TLS 1.3 was among them. */
  push(bytes: Buffer, atMs: number): boolean {
    let chose13 = false;
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.isTls && this.#rest.length >= 5) {
      const type = this.#rest.readUInt8(0);
      const length = this.#rest.readUInt16BE(3);
      this.isTls = type >= 20 && type <= 24 && this.#rest.readUInt8(1) === 3;
      if (!this.isTls || this.#rest.length < 5 + length) break;
      const body = this.#rest.subarray(5, 5 + length);
      this.#rest = this.#rest.subarray(5 + length);
      chose13 = this.#count(type, body, atMs) || chose13;
    }
    return chose13;
  }

  #count(type: number, body: Buffer, atMs: number): boolean {
    if (type === handshake) {
      this.handshakeRecords++;
      return choosesTls13(body);
    }
    if (type !== application) return false;
    this.applicationRecords++;
    this.applicationBytes += body.length;
    const hidden = this.version13 && (this.applicationRecords === 1 || body.length === alertBytes);
    if (!hidden) {
      this.payloadRecords++;
      this.payloadFirstAt ??= atMs;
    }
    return false;
  }
}

/** Whether a handshake record begins with a ServerHello whose supported_versions (43) says 3.4. */
function choosesTls13(record: Buffer): boolean {
  // type 2, length, version, random, then the session id with its length.
  if (record.length < 39 || record.readUInt8(0) !== 2) return false;
  let at = 39 + record.readUInt8(38) + 3;
  if (record.length < at + 2) return false;
  const end = Math.min(record.length, at + 2 + record.readUInt16BE(at));
  at += 2;
  while (at + 4 <= end) {
    const kind = record.readUInt16BE(at);
    const size = record.readUInt16BE(at + 2);
    if (kind === 43 && size === 2 && at + 6 <= end) return record.readUInt16BE(at + 4) === 0x0304;
    at += 4 + size;
  }
  return false;
}
