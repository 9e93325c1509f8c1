import { join } from "node:path";
import { describe } from "../errors.js";
import { type Entry, type SpoolFiles } from "./files.js";
import { removeIfThere } from "./identity.js";
import {
  formatName,
  numberIn,
  parseName,
  quarantineSuffix,
  type PackName,
  type PackNumber,
  type SpoolName,
} from "./names.js";
import type { SealedPack } from "./pack-file.js";
import { copyOut, salvageOpen, type Salvaged } from "./salvage.js";

/** A file whose acknowledged prefix has yet to be sealed from a copy. */
export type Unmended = PackName & {
  readonly name: string;
  readonly goodBytes: number;
  /** At least what the sealed copy will take. */
  readonly sealedBytes: number;
};

/** What a start finds in a spool directory, after it has salvaged what it can. */
export type Swept = {
  readonly sealed: SealedPack[];
  readonly voids: PackNumber[];
  readonly unmended: Unmended[];
  /** Above every number that a file of this writer has. */
  readonly nextSequence: bigint;
  /** Bytes of all files of ours in the directory. */
  readonly bytes: number;
  /** Packs that this start sealed. */
  readonly salvaged: number;
  /** One line about each file that was not as it should be. */
  readonly notes: string[];
};

/**
 * Goes over the directory of an owner that is gone, oldest number first, and leaves nothing half done: packs are salvaged,
 * pieces that no receipt stands for become void numbers, what makes no sense is moved aside. A file that resists is noted and
 * left for the next start; it never stops this one. Only the owner may call it. Reads no sealed pack: their uploads do.
 */
export async function sweep(files: SpoolFiles, directory: string, writerId: string, first: bigint): Promise<Swept> {
  const entries = await files.list(directory);
  const named = entries.flatMap((entry) => {
    const name = parseName(entry.name);
    return name === null ? [] : [{ entry, name }];
  });
  named.sort((a, b) => bySequence(a.name, b.name) || order.indexOf(a.name.kind) - order.indexOf(b.name.kind));
  const sweeper = new Sweeper(files, directory);
  for (const { entry, name } of named) await sweeper.visit(entry, name);
  let nextSequence = first;
  for (const entry of entries) {
    const number = numberIn(entry.name);
    if (number?.writerId === writerId && number.sequence >= nextSequence) nextSequence = number.sequence + 1n;
  }
  await files.syncDirectory(directory);
  let bytes = 0;
  for (const entry of await files.list(directory)) if (numberIn(entry.name) !== null) bytes += entry.bytes;
  const { sealed, voids, unmended, notes, salvaged } = sweeper;
  sealed.sort(bySequence);
  return { sealed, voids, unmended, nextSequence, bytes, notes, salvaged };
}

/** Oldest number first. */
export function bySequence(a: PackNumber, b: PackNumber): number {
  return a.sequence < b.sequence ? -1 : a.sequence > b.sequence ? 1 : 0;
}

/** Of several names of one pack the earlier one here decides what becomes of the others. */
const order: readonly SpoolName["kind"][] = ["sealed", "failed", "open", "begun", "copy", "void"];

class Sweeper {
  readonly sealed: SealedPack[] = [];
  readonly voids: PackNumber[] = [];
  readonly unmended: Unmended[] = [];
  readonly notes: string[] = [];
  salvaged = 0;
  /** Packs that a name before this one has settled: a rename or an unlink that a power loss half undid leaves several. */
  readonly #settled = new Set<string>();

  constructor(
    private readonly files: SpoolFiles,
    private readonly directory: string,
  ) {}

  async visit(entry: Entry, name: SpoolName): Promise<void> {
    try {
      if (!entry.isFile) await this.#aside(entry, name, "it is not a file");
      else await this.#visitFile(entry, name);
    } catch (error) {
      this.notes.push(`${entry.name} was left as it is: ${describe(error)}`);
    }
  }

  async #visitFile(entry: Entry, name: SpoolName): Promise<void> {
    if (name.kind === "void") {
      this.#addVoid(name);
      return;
    }
    if (this.#settled.has(name.packId)) {
      // Sealed, or its acknowledged part is: what this name still leads to is a copy of that, or was never acknowledged.
      await this.files.unlink(this.#path(entry.name));
      return;
    }
    if (name.kind !== "copy") this.#settled.add(name.packId);
    switch (name.kind) {
      case "sealed":
        if (entry.bytes === 0) await this.#aside(entry, name, "it is empty");
        else this.sealed.push({ ...name, name: entry.name, bytes: entry.bytes });
        return;
      case "failed":
        return this.#tryToSeal(entry, name, name.goodBytes, () =>
          copyOut(this.files, this.directory, idOf(name), { from: entry.name, goodBytes: name.goodBytes }),
        );
      case "open":
        if (entry.bytes === 0) return this.#toVoid(entry, name);
        return this.#tryToSeal(entry, name, entry.bytes, () => salvageOpen(this.files, this.directory, idOf(name)));
      case "begun":
        // No receipt was ever given for it: the name changes before the first one.
        return this.#toVoid(entry, name);
      case "copy":
        // Its source is there, and the next copy is the same.
        return this.files.unlink(this.#path(entry.name));
    }
  }

  async #tryToSeal(entry: Entry, name: PackName, goodBytes: number, seal: () => Promise<Salvaged>): Promise<void> {
    let salvaged: Salvaged;
    try {
      salvaged = await seal();
    } catch (error) {
      // No room, say. The running spool tries again; 128 KiB are more than header, schema and trailer.
      this.notes.push(`${entry.name} could not be sealed yet: ${describe(error)}`);
      this.unmended.push({ ...idOf(name), name: entry.name, goodBytes, sealedBytes: 2 * goodBytes + 128 * 1024 });
      return;
    }
    await this.#finish(entry, name, salvaged);
  }

  async #finish(entry: Entry, name: PackName, { pack, note }: Salvaged): Promise<void> {
    if (pack !== null) {
      this.sealed.push(pack);
      this.salvaged += 1;
    }
    if (note !== null) await this.#aside(entry, name, note, { used: pack !== null });
    else await removeIfThere(this.files, this.#path(entry.name));
  }

  async #toVoid(entry: Entry, name: PackNumber): Promise<void> {
    // The marker first: cut off between the two, the next start does both again; the other way round the number's gap would stay.
    await this.#makeVoid(name);
    await this.files.unlink(this.#path(entry.name));
  }

  async #aside(entry: Entry, name: PackNumber, why: string, o: { used?: boolean } = {}): Promise<void> {
    if (o.used !== true) await this.#makeVoid(name);
    await this.files.rename(this.#path(entry.name), this.#path(entry.name + quarantineSuffix));
    this.notes.push(`${entry.name} was moved aside: ${why}`);
  }

  async #makeVoid(number: PackNumber): Promise<void> {
    await makeVoid(this.files, this.directory, number);
    this.#addVoid(number);
  }

  #addVoid({ writerId, sequence }: PackNumber): void {
    const known = this.voids.some((number) => number.writerId === writerId && number.sequence === sequence);
    if (!known) this.voids.push({ writerId, sequence });
  }

  #path(name: string): string {
    return join(this.directory, name);
  }
}

/** Puts the durable marker of a void number into the directory; that it is there is success. */
export async function makeVoid(files: SpoolFiles, directory: string, number: PackNumber): Promise<void> {
  const path = join(directory, formatName({ kind: "void", writerId: number.writerId, sequence: number.sequence }));
  await removeIfThere(files, path);
  const file = await files.open(path, "create");
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
  await files.syncDirectory(directory);
}

const idOf = (name: PackName): PackName => ({ writerId: name.writerId, sequence: name.sequence, packId: name.packId });
