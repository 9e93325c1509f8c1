import { join } from "node:path";
import type { Body } from "@holdfast/object-store";
import type { SpoolFiles } from "./files.js";
import { removeIfThere, writeIdentity, type Identity } from "./identity.js";
import type { Ledger } from "./ledger.js";
import { formatName, quarantineSuffix, type PackNumber } from "./names.js";
import type { SealedPack } from "./pack-file.js";
import { fileBody, fileIsIntact } from "./reading.js";
import { bySequence, makeVoid } from "./sweep.js";

/** What lies in the directory ready to go: sealed packs, and numbers that no pack uses. */
export class Shelf {
  readonly #packs: SealedPack[];
  readonly #voids: PackNumber[];
  #identity: Identity;
  #committedNext: bigint;
  #identityWork: Promise<void> = Promise.resolve();

  constructor(
    private readonly o: {
      readonly files: SpoolFiles;
      readonly directory: string;
      readonly ledger: Ledger;
      readonly identity: Identity;
      readonly packs: readonly SealedPack[];
      readonly voids: readonly PackNumber[];
      readonly nextSequence: bigint;
    },
  ) {
    this.#packs = [...o.packs];
    this.#voids = [...o.voids];
    this.#identity = o.identity;
    this.#committedNext = o.nextSequence;
  }

  /** Sealed packs, oldest first. */
  get packs(): readonly SealedPack[] {
    return this.#packs;
  }
  get voids(): readonly PackNumber[] {
    return this.#voids;
  }

  /** This number has a file under a durable name: so have all below it, or a marker. */
  committed(sequence: bigint): void {
    if (sequence >= this.#committedNext) this.#committedNext = sequence + 1n;
  }

  add(pack: SealedPack): void {
    const last = this.#packs.at(-1);
    this.#packs.push(pack);
    // A mended pack comes later than its number.
    if (last !== undefined && bySequence(last, pack) > 0) this.#packs.sort(bySequence);
  }

  addVoid({ writerId, sequence }: PackNumber): void {
    this.#voids.push({ writerId, sequence });
  }

  /** The bytes of a sealed pack for an upload, opened anew for each attempt. */
  body(pack: SealedPack): Body {
    return fileBody(this.o.files, this.#path(pack.name), pack.bytes);
  }

  /** Whether a sealed pack still has the bytes that its name promises. Reads all of it. */
  isIntact(pack: SealedPack, signal: AbortSignal): Promise<boolean> {
    return fileIsIntact(this.o.files, this.#path(pack.name), pack, signal);
  }

  /** Removes an uploaded pack; that its file is gone already is success. Before that, its number is recorded as used. */
  async remove(pack: SealedPack): Promise<void> {
    await this.#recordUse(pack);
    await removeIfThere(this.o.files, this.#path(pack.name));
    if (this.#drop(pack)) this.o.ledger.free(pack.bytes);
  }

  /** Removes the marker of a number that has been published as void. */
  async removeVoid(number: PackNumber): Promise<void> {
    await this.#recordUse(number);
    await removeIfThere(this.o.files, this.#path(formatName({ ...number, kind: "void" })));
    const at = this.#voids.indexOf(number);
    if (at >= 0) this.#voids.splice(at, 1);
  }

  /** Moves a sealed pack aside whose bytes are not what its name says; its number becomes void. */
  async moveAside(pack: SealedPack): Promise<void> {
    await makeVoid(this.o.files, this.o.directory, pack);
    const path = this.#path(pack.name);
    await this.o.files.rename(path, path + quarantineSuffix);
    await this.o.files.syncDirectory(this.o.directory);
    this.#drop(pack);
    this.addVoid(pack);
  }

  /** Resolves when no identity is being written any more. */
  async settled(): Promise<void> {
    await this.#identityWork;
  }

  /** A number that leaves the directory is recorded as used first, or a later start could give it out again. */
  #recordUse(number: PackNumber): Promise<void> {
    const work = this.#identityWork.then(async () => {
      const { writerId, nextSequence } = this.#identity;
      if (number.writerId !== writerId || number.sequence < nextSequence) return;
      const next = number.sequence >= this.#committedNext ? number.sequence + 1n : this.#committedNext;
      const identity = { ...this.#identity, nextSequence: next };
      await writeIdentity(this.o.files, this.o.directory, identity);
      this.#identity = identity;
    });
    this.#identityWork = work.catch(() => undefined);
    return work;
  }

  #drop(pack: SealedPack): boolean {
    const at = this.#packs.indexOf(pack);
    if (at < 0) return false;
    this.#packs.splice(at, 1);
    return true;
  }

  #path(name: string): string {
    return join(this.o.directory, name);
  }
}
