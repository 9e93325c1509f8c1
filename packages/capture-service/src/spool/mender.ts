import { join } from "node:path";
import type { Clock } from "@holdfast/deadline-http";
import { describe } from "../errors.js";
import type { SpoolFiles } from "./files.js";
import { removeIfThere } from "./identity.js";
import type { Ledger } from "./ledger.js";
import { quarantineSuffix } from "./names.js";
import { copyOut } from "./salvage.js";
import type { Shelf } from "./shelf.js";
import { makeVoid, type Unmended } from "./sweep.js";

type Waiting = { readonly file: Unmended; readonly charge: number; retryAt: number };

const retryMs = 1_000;

/**
 * Files that a failed write ended, whose acknowledged part has to be sealed from a copy. That needs as much room again, so
 * it may have to wait until packs have been uploaded; while it waits for room, nothing new is admitted.
 */
export class Mender {
  readonly #waiting: Waiting[];

  constructor(
    private readonly o: {
      readonly files: SpoolFiles;
      readonly directory: string;
      readonly ledger: Ledger;
      readonly shelf: Shelf;
      readonly clock: Clock;
      readonly unmended: readonly Unmended[];
      readonly note: (text: string, movedAside: boolean) => void;
      /** Asks for another call of `mend` later. */
      readonly kick: () => void;
    },
  ) {
    this.#waiting = o.unmended.map((file) => ({ file, charge: file.goodBytes, retryAt: 0 }));
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** `charge`: what the ledger holds for the file as it is. */
  add(file: Unmended, charge: number): void {
    this.#waiting.push({ file, charge, retryAt: 0 });
    // Until the first try has shown whether there is room.
    this.o.ledger.hold(true);
  }

  /** Does what can be done now. `last`: there will be no later. */
  async mend(last: boolean): Promise<void> {
    for (const waiting of [...this.#waiting]) {
      if (this.o.clock.now() < waiting.retryAt && !last) continue;
      if (!this.o.ledger.tryReserve(waiting.file.sealedBytes)) {
        // Room comes with uploads, which kick; the timer is for room that comes in another way.
        this.o.ledger.hold(true);
        this.#later();
        continue;
      }
      try {
        await this.#mendOne(waiting);
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      } catch (error) {
        this.o.ledger.free(waiting.file.sealedBytes);
        this.o.note(`${waiting.file.name} could not be sealed yet: ${describe(error)}`, false);
        waiting.retryAt = this.o.clock.now() + retryMs;
        this.#later();
      }
      this.o.ledger.hold(false);
    }
  }

  async #mendOne({ file, charge }: Waiting): Promise<void> {
    const { files, directory, ledger, shelf } = this.o;
    const { writerId, sequence, packId } = file;
    const id = { writerId, sequence, packId };
    const { pack, note } = await copyOut(files, directory, id, { from: file.name, goodBytes: file.goodBytes });
    if (pack === null) {
      await makeVoid(files, directory, id);
      shelf.addVoid(id);
    } else {
      shelf.add(pack);
    }
    ledger.settle(file.sealedBytes, pack?.bytes ?? 0);
    const path = join(directory, file.name);
    try {
      if (note !== null) await files.rename(path, path + quarantineSuffix);
      else {
        // It held the acknowledged records, which the copy has, and perhaps others, which went elsewhere or were refused.
        await removeIfThere(files, path);
        ledger.free(charge);
      }
    } catch {
      // The copy stands. The old file stays in the way until the next start, which removes it, having found the copy.
    }
    if (note !== null) this.o.note(note, true);
  }

  #later(): void {
    this.o.clock.setTimer(retryMs, this.o.kick, { unref: true });
  }
}
