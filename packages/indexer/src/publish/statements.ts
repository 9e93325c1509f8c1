import { newest } from "../catalog/membership.js";
import { quoteText, type CatalogTables } from "../catalog/tables.js";
import type { PackRef } from "../pack-ref.js";

/** Longest text of one manifest statement: servers parse at most 256 KiB of a statement by default. */
export const manifestTextBytes = 192 * 1024;

/** Splits packs so that each part's statement text stays below `budget` bytes; a part has at least one pack. */
export function manifestChunks(packs: readonly PackRef[], budget = manifestTextBytes): readonly (readonly PackRef[])[] {
  const chunks: PackRef[][] = [];
  let room = 0;
  for (const pack of packs) {
    const bytes = memberText(pack).length + 1;
    let chunk = chunks.at(-1);
    if (chunk === undefined || bytes > room) {
      chunk = [];
      chunks.push(chunk);
      room = budget;
    }
    chunk.push(pack);
    room -= bytes;
  }
  return chunks;
}

/**
 * INSERT … SELECT of members, admitted by the fence. Keys and ids stand in the text: both are made of checked characters
 * (packKey), and a statement's parameters go into the URL, which has no room for them.
 */
export function manifestStatement(tables: CatalogTables, packs: readonly PackRef[], fence: string): string {
  return (
    `INSERT INTO ${tables.manifest} (index_version, publish_id, store_id, object_key, pack_id, change) ` +
    `SELECT {version:UInt64}, {publish_id:UUID}, {store_id:String}, hf_member.1, toUUID(hf_member.2), 1 ` +
    `FROM (SELECT arrayJoin([${packs.map(memberText).join(",")}]) AS hf_member) WHERE ${fence}`
  );
}

export function memberCountStatement(tables: CatalogTables): string {
  return (
    `SELECT uniqExact(store_id, pack_id) AS members FROM ${tables.manifest} ` +
    `WHERE index_version = {version:UInt64} AND publish_id = {publish_id:UUID}`
  );
}

/**
 * The statement that makes a publish visible. Barrier (nothing as high or higher is visible), fence (the lease is ours and
 * outlives this statement) and the row itself are one statement, so nothing can come between the check and the effect.
 */
export function watermarkStatement(tables: CatalogTables, fence: string): string {
  return (
    `INSERT INTO ${tables.watermark} (index_version, publish_id, published_at_ns, indexed_rows, indexed_packs) ` +
    `SELECT {version:UInt64}, {publish_id:UUID}, {published_at_ns:UInt64}, {indexed_rows:UInt64}, {indexed_packs:UInt32} ` +
    `WHERE ${newest(tables.watermark, "index_version")} < {version:UInt64} AND ${fence}`
  );
}

export function publishesStatement(tables: CatalogTables): string {
  return (
    `SELECT DISTINCT toString(publish_id) AS publish_id FROM ${tables.watermark} ` +
    `WHERE index_version = {version:UInt64}`
  );
}

/** Why a fenced statement wrote nothing: whether the fence holds now, and what is the newest visible version. */
export function refusalStatement(tables: CatalogTables, fence: string): string {
  return `SELECT toUInt8(${fence}) AS held, ${newest(tables.watermark, "index_version")} AS head`;
}

function memberText(pack: PackRef): string {
  return `(${quoteText(pack.key)},${quoteText(pack.packId)})`;
}
