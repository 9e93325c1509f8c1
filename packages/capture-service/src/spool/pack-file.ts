import { join } from "node:path";
import type { CaptureRecord, Codec, PackWriter } from "@holdfast/pack-format";
import { codeOf } from "../errors.js";
import { removeIfThere } from "./identity.js";
import { writeAll, type SpoolFile, type SpoolFiles } from "./files.js";
import { poolGate } from "./gate.js";
import { formatName, type PackName, type SpoolName } from "./names.js";

/** A sealed pack that waits for its upload. */
export type SealedPack = PackName & {
  readonly name: string;
  readonly bytes: number;
  readonly records: number;
  readonly sha256: string;
};

/**
 * One pack being written.
 *
 * `begun` until its first commit: no receipt exists for it and a start throws it away. `open` after: the bytes below
 * `durableBytes` are acknowledged. After any failed call it is only good for `giveUp`: nothing is ever appended to it again,
 * because after a failed fdatasync the kernel may call pages clean that never reached the disk.
 */
export class PackFile {
  #kind: "begun" | "open" = "begun";
  #writtenBytes = 0;
  #durableBytes = 0;
  #durableSealedBytes = 0;
  #sealing = false;

  private constructor(
    private readonly files: SpoolFiles,
    private readonly directory: string,
    readonly id: PackName,
    readonly writer: PackWriter,
    private readonly file: SpoolFile,
    private readonly codec: Codec,
  ) {}

  static async begin(
    files: SpoolFiles,
    directory: string,
    id: PackName,
    o: { writer: PackWriter; codec: Codec },
  ): Promise<PackFile> {
    const file = await files.open(join(directory, formatName({ kind: "begun", ...id })), "create");
    return new PackFile(files, directory, id, o.writer, file, o.codec);
  }

  get durableBytes(): number {
    return this.#durableBytes;
  }
  /** What the acknowledged part takes once it is sealed. */
  get durableSealedBytes(): number {
    return this.#durableSealedBytes;
  }
  get records(): number {
    return this.writer.recordCount;
  }

  /** Encodes one block and writes it behind what is there. Nothing is promised about it before `commit`. */
  async append(records: readonly CaptureRecord[]): Promise<void> {
    // Compression runs in libuv's pool like file work, so it passes the same gate.
    const encode = (): Promise<Uint8Array> => this.writer.encodeBlock(records);
    const block = this.codec === "none" ? await encode() : await poolGate.run(encode);
    if (this.#writtenBytes === 0) {
      await writeAll(this.file, this.writer.header, 0);
      this.#writtenBytes = this.writer.header.byteLength;
    }
    await writeAll(this.file, block, this.#writtenBytes);
    this.#writtenBytes += block.byteLength;
  }

  /** Makes all that was appended durable: fdatasync, and the first time the name that a start will honour, and its directory. */
  async commit(): Promise<void> {
    await this.file.datasync();
    if (this.#kind === "begun") {
      await this.files.rename(this.#path("begun"), this.#path("open"));
      this.#kind = "open";
      await this.files.syncDirectory(this.directory);
    }
    this.#durableBytes = this.#writtenBytes;
    this.#durableSealedBytes = this.writer.projectedSize();
  }

  /** Ends the pack in place, under the id with which it was begun: index and trailer, fdatasync, link, unlink, directory. */
  async seal(): Promise<SealedPack> {
    this.#sealing = true;
    const tail = await this.writer.finish();
    await writeAll(this.file, tail.bytes, this.#writtenBytes);
    await this.file.datasync();
    const name = sealedName(this.id, tail.recordCount, tail.packSha256);
    await publishName(this.files, this.directory, formatName({ kind: "open", ...this.id }), name);
    await this.file.close();
    return { ...this.id, name, bytes: tail.packSize, records: tail.recordCount, sha256: tail.packSha256 };
  }

  /**
   * Sets the file aside after a failure: cut back to what is acknowledged, closed, and renamed so that the name tells a
   * later start how much of it counts. Once that name is durable, records that were written to it without a receipt may be
   * written elsewhere: nobody will ever read them from here. Throws when the name could not be made durable; the file then
   * has one of its two names. Answers its bytes on disk.
   */
  async giveUp(): Promise<{ readonly kind: "void" | "failed"; readonly bytes: number }> {
    // The cut is for room only. A file that may have its sealed name already is never cut: both names are one file.
    const cut = this.#sealing ? false : await succeeds(this.file.truncate(this.#durableBytes));
    await succeeds(this.file.close());
    const kept: SpoolName & { kind: "void" | "failed" } =
      this.#durableBytes === 0
        ? { kind: "void", writerId: this.id.writerId, sequence: this.id.sequence }
        : { kind: "failed", ...this.id, goodBytes: this.#durableBytes };
    await renameEither(this.files, [this.#path("open"), this.#path("begun")], join(this.directory, formatName(kept)));
    await this.files.syncDirectory(this.directory);
    return { kind: kept.kind, bytes: cut ? this.#durableBytes : this.writer.projectedSize() };
  }

  #path(kind: "begun" | "open"): string {
    return join(this.directory, formatName({ kind, ...this.id }));
  }
}

export function sealedName(id: PackName, records: number, sha256: string): string {
  return formatName({ kind: "sealed", ...id, records, sha256 });
}

/**
 * link, the directory, then unlink, then the directory: never a moment without a durable name, also where a disk makes the
 * changes of one directory durable in another order, and a clash is an error instead of a loss. Throws only while the new
 * name may not be durable; the old one is there then. Afterwards both may remain, which a start clears up: one file, whole.
 */
export async function publishName(files: SpoolFiles, directory: string, from: string, to: string): Promise<void> {
  const [old, sealed] = [join(directory, from), join(directory, to)];
  try {
    await files.link(old, sealed);
  } catch (error) {
    const code = codeOf(error);
    // The name holds the SHA-256, so what has it already is this very pack, from a seal that was cut off. And where there are
    // no hard links, rename cannot replace anything but that.
    if (code === "EPERM" || code === "ENOTSUP" || code === "ENOSYS") await files.rename(old, sealed);
    else if (code !== "EEXIST") throw error;
  }
  try {
    await files.syncDirectory(directory);
  } catch (error) {
    // Takes the new name back, as the caller is about to cut the file: it must not cut one that is sealed.
    await files.unlink(sealed);
    throw error;
  }
  try {
    await removeIfThere(files, old);
    await files.syncDirectory(directory);
  } catch {
    // The sealed name is durable, and that is all that counts.
  }
}

const succeeds = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

async function renameEither(files: SpoolFiles, from: readonly [string, string], to: string): Promise<void> {
  try {
    await files.rename(from[0], to);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    await files.rename(from[1], to);
  }
}
