// Both majors of the vendor's package; 8 asks for Node 22, and where it does not load its tests are skipped, with the reason in their title.
import type { Storage, StorageOptions } from "@google-cloud/storage";

export type Vendor = {
  readonly name: string;
  readonly Storage: (new (o?: StorageOptions) => Storage) | null;
};

async function load(name: string, module: () => Promise<unknown>): Promise<Vendor> {
  try {
    const { Storage } = (await module()) as { Storage: NonNullable<Vendor["Storage"]> };
    return { name, Storage };
  } catch (error) {
    return { name: `${name}: not on Node ${process.version} (${String(error).split("\n")[0]})`, Storage: null };
  }
}

export const vendors: readonly Vendor[] = await Promise.all([
  load("@google-cloud/storage 7", () => import("@google-cloud/storage")),
  load("@google-cloud/storage 8", () => import("@google-cloud/storage-8")),
]);
