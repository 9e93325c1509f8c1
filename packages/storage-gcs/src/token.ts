import type { Storage } from "@google-cloud/storage";

// The vendor's auth client keeps a token until shortly before the time at which it said that it would expire. Servers end some earlier
// (a revoked key, a clock that is wrong), and answer 401: then the kept one has to go, or the next request would carry it again. How the
// next one is fetched, shared and bounded is up to the bound client.

type Kept = { access_token?: unknown; expiry_date?: unknown };
/** Alike in the auth libraries of both majors; a client of another make has none of it, and keeps what it has. */
type AuthLike = {
  readonly cachedCredential?: { readonly credentials?: Kept; readonly cachedAccessToken?: Kept | null } | null;
};

const kept = (client: Storage): readonly Kept[] => {
  const source = (client.authClient as AuthLike | undefined)?.cachedCredential;
  return [source?.credentials, source?.cachedAccessToken].filter((one) => one !== undefined && one !== null);
};

/** The token that requests carry now; undefined before the first, and when none is sent. */
export const heldToken = (client: Storage): unknown => kept(client).find((one) => one.access_token)?.access_token;

/**
 * Makes the next request fetch a token, unless another call has done so since `held` was read. Returns whether sending again can do better.
 */
export function forgetToken(client: Storage, held: unknown): boolean {
  const all = kept(client).filter((one) => one.access_token);
  // The library's own way to say "expired"; it then refreshes, whatever kind of credential it is. A request that found no token has carried
  // the one that was fetched for it.
  for (const one of all) if (held === undefined || one.access_token === held) one.expiry_date = 1;
  return all.length > 0;
}
