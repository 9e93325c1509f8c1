// Goal: tokens are fetched, shared and fetched again as they should be, a given client stays as it was, and no error ever shows a secret.
// Method: the real client with a user's credentials, whose token endpoint is the test's own.
import { inspect } from "node:util";
import type { Storage } from "@google-cloud/storage";
import { within } from "@holdfast/deadline-http";
import { errorCode, type ObjectStore } from "@holdfast/object-store";
import { gcsStore } from "@holdfast/storage-gcs";
import { until } from "@holdfast-private/tests-machine";
import { delivered, gcsError, startFaultServer, type FaultServer, type Reply } from "@holdfast/testkit";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { clientOf, scriptedGcs, stalled, storeOn, type Plan, type ScriptedGcs } from "../support/scripted-gcs.js";
import { vendors, type Vendor } from "../support/vendors.js";

const never = new AbortController().signal;
const bytes = new TextEncoder().encode("bytes");
const create = { mode: "create", signal: never } as const;
const credentials = {
  type: "authorized_user",
  client_id: "i",
  client_secret: "hidden-client",
  refresh_token: "hidden-refresh",
};

/** An endpoint that gives a new token each time. */
async function tokenEndpoint(answer?: (nth: number) => Reply): Promise<FaultServer> {
  let nth = 0;
  const grant = (n: number): Reply => ({
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ access_token: `hidden-token-${n}`, expires_in: 3_600, token_type: "Bearer" }),
  });
  const server = await startFaultServer({ otherwise: () => (answer ?? grant)(++nth) });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

function withTokens(
  vendor: Vendor,
  api: ScriptedGcs,
  endpoint: FaultServer,
  o: { tokenTimeoutMs?: number; attempts?: number } = {},
): ObjectStore {
  const client = clientOf(vendor, api.url, { useAuthWithCustomEndpoint: true, credentials });
  const { authClient } = client as unknown as {
    authClient: { fromJSON(json: object): { endpoints: object }; cachedCredential: object };
  };
  const source = authClient.fromJSON(credentials);
  Object.assign(source.endpoints, { oauth2TokenUrl: endpoint.url });
  authClient.cachedCredential = source;
  return gcsStore({ client, bucket: "bucket", storeId: "s", allowHttp: true, random: () => 0, ...o });
}

const tokensOf = (server: ScriptedGcs): (string | undefined)[] =>
  server.seen.map(({ request }) => request.headers["authorization"]);

describe.each(vendors)("$name", (vendor) => {
  const test = it.skipIf(vendor.Storage === null);

  describe("tokens", () => {
    test("one is fetched for all, and sent with every request", async () => {
      const endpoint = await tokenEndpoint();
      const api = await scriptedGcs();
      const store = withTokens(vendor, api, endpoint);
      await Promise.all(["a", "b", "c"].map((key) => store.put(key, bytes, create)));
      await store.get("a", { signal: never });
      expect(endpoint.received).toHaveLength(1);
      expect(new Set(tokensOf(api))).toEqual(new Set(["Bearer hidden-token-1"]));
    });

    /** Answers 401 to these tokens. */
    const refusing =
      (...tokens: string[]): Plan =>
      ({ request }, honest) =>
        tokens.some((token) => request.headers["authorization"]?.endsWith(token) === true)
          ? gcsError(401, "authError")
          : honest();

    test("one that the server no longer takes is fetched again, once, for every kind of request", async () => {
      const endpoint = await tokenEndpoint();
      const refused: string[] = [];
      const api = await scriptedGcs((seen, honest) => refusing(...refused)(seen, honest));
      const store = withTokens(vendor, api, endpoint, { attempts: 1 });
      const calls: (() => Promise<unknown>)[] = [
        () => store.put("k", bytes, create).then(({ outcome }) => expect(outcome).toBe("created")),
        () => store.get("k", { signal: never }),
        () => store.head("k", { signal: never }),
        async () => {
          for await (const { key } of store.list({ prefix: "", signal: never })) expect(key).toBe("k");
        },
        () => store.delete("k", { signal: never }),
      ];
      await store.head("k", { signal: never });
      for (const [n, call] of calls.entries()) {
        refused.push(`-${n + 1}`);
        await call();
        expect(endpoint.received).toHaveLength(n + 2);
      }
    });

    test("a server that takes none is asked twice, and is ACCESS_DENIED", async () => {
      const endpoint = await tokenEndpoint();
      const api = await scriptedGcs(() => gcsError(401, "authError"));
      const store = withTokens(vendor, api, endpoint);
      const result = await store.put("k", bytes, create);
      expect([result.outcome, "error" in result ? errorCode(result.error) : ""]).toEqual(["failed", "ACCESS_DENIED"]);
      expect(tokensOf(api)).toEqual(["Bearer hidden-token-1", "Bearer hidden-token-2"]);
    });

    test("without a token a 401 is not asked again", async () => {
      const api = await scriptedGcs(() => gcsError(401, "authError"));
      await expect(storeOn(vendor, api).head("k", { signal: never })).rejects.toMatchObject({ code: "ACCESS_DENIED" });
      expect(api.ops()).toBe("head");
    });

    test("B28 (d) an endpoint that stalls: nothing is sent, the put is failed at the signal, and the fetch goes on for the next", async () => {
      let grant = (): void => undefined;
      const granted = new Promise<void>((resolve) => (grant = resolve));
      const endpoint = await startFaultServer({
        otherwise: async () => {
          await granted;
          return {
            headers: { "content-type": "application/json" },
            body: '{"access_token":"hidden-late","expires_in":3600}',
          };
        },
      });
      onTestFinished(() => endpoint[Symbol.asyncDispose]());
      const api = await scriptedGcs();
      const store = withTokens(vendor, api, endpoint, { tokenTimeoutMs: 600_000 });
      const deadline = Object.assign(new Error("ran out"), { code: "DEADLINE_EXCEEDED" });
      const abort = new AbortController();
      const put = store.put("k", bytes, { mode: "create", signal: abort.signal });
      await until("the token is asked for", () => endpoint.received.length === 1);
      abort.abort(deadline);
      expect(await put).toEqual({ outcome: "failed", error: deadline });
      const next = store.put("k", bytes, create);
      grant();
      expect((await next).outcome).toBe("created");
      expect([api.ops(), endpoint.received.length]).toEqual(["put", 1]);
    });

    test("an endpoint that refuses is ACCESS_DENIED, one that is not there or has a problem UNAVAILABLE; nothing is sent", async () => {
      const answers: [() => Reply, string][] = [
        [
          () => ({
            status: 400,
            headers: { "content-type": "application/json" },
            body: '{"error":"invalid_grant hidden-words"}',
          }),
          "ACCESS_DENIED",
        ],
        [() => delivered({}, { stopAt: { place: "before-headers", by: "rst" } }), "UNAVAILABLE"],
      ];
      for (const [answer, expected] of answers) {
        const endpoint = await tokenEndpoint(answer);
        const api = await scriptedGcs();
        const result = await withTokens(vendor, api, endpoint, { attempts: 1 }).put("k", bytes, create);
        expect([result.outcome, "error" in result ? errorCode(result.error) : ""]).toEqual(["failed", expected]);
        expect(inspect(result, { depth: 20, showHidden: true })).not.toContain("hidden");
        expect(api.seen).toEqual([]);
      }
    });
  });

  test("no error shows a secret, whatever the server repeats", async () => {
    const endpoint = await tokenEndpoint();
    const api = await scriptedGcs(({ request, op }, honest) => {
      if (op === "begin") return honest();
      const all = `${JSON.stringify(request.headers)} ${request.target}`;
      return gcsError(op === "chunk" ? 400 : 403, "forbidden", all, { "x-said": "hidden" });
    });
    const store = withTokens(vendor, api, endpoint);
    const result = await store.put("k", bytes, create);
    const read = await store.get("k", { signal: never }).catch((error: unknown) => error);
    // The address of an upload session is a secret too.
    const sessions = storeOn(vendor, api, { resumable: { thresholdBytes: 0 } });
    const large = await sessions.put("k", bytes, create);
    const shown =
      inspect([result, read, large], { depth: 20, showHidden: true }) + JSON.stringify([result, read, large]);
    expect(shown).toContain("forbidden");
    expect(shown).not.toMatch(/hidden|Bearer|upload_id|session-1/);
  });

  describe("the client", () => {
    test("that is given is not changed, and its own retries do not apply", async () => {
      const api = await scriptedGcs(() => gcsError(503, "backendError"));
      const client: Storage = clientOf(vendor, api.url, { retryOptions: { autoRetry: true, maxRetries: 3 } });
      const before = inspect(client, { depth: 3, showHidden: true });
      const store = gcsStore({ client, bucket: "bucket", storeId: "s", allowHttp: true, attempts: 2, random: () => 0 });
      await expect(store.head("k", { signal: never })).rejects.toMatchObject({ code: "UNAVAILABLE" });
      expect(api.ops()).toBe("head head");
      expect(inspect(client, { depth: 3, showHidden: true })).toBe(before);
    });

    test("keeps its interceptors", async () => {
      const api = await scriptedGcs();
      const client = clientOf(vendor, api.url);
      client.interceptors.push({
        request: (options) => Object.assign(options, { headers: { ...options.headers, "x-mine": "1" } }) as never,
      });
      await gcsStore({ client, bucket: "bucket", storeId: "s", allowHttp: true }).head("k", { signal: never });
      expect(api.seen[0]!.request.headers["x-mine"]).toBe("1");
    });
  });

  describe("a deadline of the caller's scope", () => {
    test("ends a call with its own error, an unsent put as failed", async () => {
      const api = await scriptedGcs(() => stalled);
      const store = storeOn(vendor, api);
      await expect(within(0, () => store.head("k", { signal: never }))).rejects.toMatchObject({
        code: "DEADLINE_EXCEEDED",
      });
      expect(await within(0, () => store.put("k", bytes, create))).toMatchObject({
        outcome: "failed",
        error: { code: "DEADLINE_EXCEEDED" },
      });
      expect(api.seen).toEqual([]);
    });
  });
});

it("STORAGE_EMULATOR_HOST is where requests go", async () => {
  const api = await scriptedGcs();
  vi.stubEnv("STORAGE_EMULATOR_HOST", api.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const store = gcsStore({ bucket: "bucket", allowHttp: true });
  expect((await store.put("k", bytes, create)).outcome).toBe("created");
  expect(api.ops()).toBe("put");
});
