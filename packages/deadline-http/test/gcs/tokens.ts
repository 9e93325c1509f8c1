// Goal: a token is fetched once for all who wait for it, cuts nobody's deadline short or long, and stands in no error.
// Method: the real Storage with OAuth2 credentials, a token endpoint and an API of the test's own.
import { inspect } from "node:util";
import type { Storage } from "@google-cloud/storage";
import { expect, it } from "vitest";
import { systemClock, withDeadline, within, type Instant } from "@holdfast/deadline-http";
import type { BindOptions } from "@holdfast/deadline-http/gcs";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { failure } from "../support/clickhouse.js";
import { boundStorage, gcsServer, objects, says, type Answering, type GcsServer, type Vendor } from "../support/gcs.js";
import { allEndByBound, endsByBound, turns } from "../support/virtual-bound.js";

const token = says.json({ access_token: "t0ken-value", expires_in: 3_600, token_type: "Bearer" });

/** A user's refresh token, whose exchange goes to an endpoint of the test's. */
function withTokens(vendor: Vendor, api: GcsServer, endpoint: string, o: BindOptions = {}): Storage {
  const credentials = {
    type: "authorized_user",
    client_id: "i",
    client_secret: "cl1ent-secret",
    refresh_token: "r3fresh",
  };
  const limits = { tokenTimeoutMs: 600_000, ...o };
  const storage = boundStorage(vendor, api.url, limits, { useAuthWithCustomEndpoint: true, credentials });
  const { authClient } = storage as unknown as {
    authClient: { fromJSON(json: object): { endpoints: object }; cachedCredential: object };
  };
  const client = authClient.fromJSON(credentials);
  Object.assign(client.endpoints, { oauth2TokenUrl: endpoint });
  authClient.cachedCredential = client;
  return storage;
}

const read = (storage: Storage): Promise<unknown> => storage.bucket("b").file("f").getMetadata();
const save = (storage: Storage): Promise<unknown> => storage.bucket("b").file("f").save("x", { validation: false });

export function tokens(vendor: Vendor): void {
  it("DL-22 DL-27 a fetch begun under 60 ms goes on for the next caller: one token request, the first call not sent", async () => {
    let grant = (): void => undefined;
    const endpoint = await gcsServer((response, request) => (grant = () => token(response, request)));
    const api = await gcsServer(says.json({ name: "f" }));
    const storage = withTokens(vendor, api, endpoint.url);
    const asked = (): boolean => endpoint.received.length === 1;
    const first = endsByBound(() => read(storage), asked, { ms: 60 });
    const second = within(600_000, () => read(storage));
    expect(await first).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
    expect(api.received).toHaveLength(0);
    grant();
    expect(await second).toMatchObject([{ name: "f" }, {}]);
    await read(storage);
    expect(endpoint.received).toHaveLength(1);
    expect(api.received.map((one) => one.headers.authorization)).toEqual(["Bearer t0ken-value", "Bearer t0ken-value"]);
  });

  it("DL-22 DL-27 a source of tokens that does not join its callers itself is asked once for two", async () => {
    const api = await gcsServer(says.json({ name: "f" }));
    const storage = boundStorage(vendor, api.url, {}, { useAuthWithCustomEndpoint: true });
    let [clients, asked] = [0, 0];
    let grant = (): void => undefined;
    const granted = new Promise<void>((resolve) => (grant = resolve));
    const getRequestHeaders = async (): Promise<object> => {
      asked += 1;
      await granted;
      return { authorization: "Bearer own" };
    };
    const source = { getRequestHeaders };
    const getClient = (): Promise<object> => {
      clients += 1;
      return Promise.resolve(source);
    };
    const { authClient } = Object.getPrototypeOf(storage) as { authClient: object };
    Object.assign(authClient, { getClient });
    const both = Promise.all([read(storage), read(storage)]);
    await until("both have come for it", () => clients === 2);
    await turns();
    grant();
    await both;
    expect(asked).toBe(1);
    expect(api.received.map((one) => one.headers.authorization)).toEqual(["Bearer own", "Bearer own"]);
  });

  it("B28 DL-03 DL-27 (d) a token endpoint that stalls: not sent, by the deadline, whatever the call", async () => {
    const endpoint = await gcsServer(says.silent);
    const api = await gcsServer(objects().answering);
    const storage = withTokens(vendor, api, endpoint.url);
    const f = storage.bucket("b").file("f");
    const calls = [
      read,
      save,
      () => f.download(),
      () => f.createReadStream().toArray(),
      () => f.save("x", { resumable: false }),
    ];
    const all = await allEndByBound(
      calls.map((call) => () => call(storage)),
      () => endpoint.received.length === 1,
    );
    for (const failed of all) {
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
    }
    expect(endpoint.received).toHaveLength(1);
    expect(api.connections).toHaveLength(0);
  });

  it("DL-22 DL-27 the fetch has a bound of its own, after which the next caller begins anew", async () => {
    const endpoint = await gcsServer(says.silent, token);
    const api = await gcsServer(says.json({ name: "f" }));
    const clock = new VirtualClock();
    const storage = withTokens(vendor, api, endpoint.url, { tokenTimeoutMs: 400, maxAttempts: 1, clock });
    const call = failure(() => read(storage));
    await until("the token is asked for", () => endpoint.received.length === 1);
    await clock.advance(400);
    const failed = await call;
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent" });
    expect(failed.message).toContain("no token within 400 ms (tokenTimeoutMs)");
    expect(await read(storage)).toMatchObject([{ name: "f" }, {}]);
    await until("its connection goes", () => endpoint.connections[0]!.destroyed);
  });

  it("DL-07 DL-27 a refused credential: not sent, not tried again", async () => {
    const endpoint = await gcsServer(says.json({ error: "invalid_grant", error_description: "revoked" }, 400));
    const api = await gcsServer(says.silent);
    const failed = await failure(() => read(withTokens(vendor, api, endpoint.url)));
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent", timedOut: false });
    expect(failed.message).toMatch(/no credentials for the request: .*invalid_grant/);
    expect(endpoint.received).toHaveLength(1);
    expect(api.connections).toHaveLength(0);
  });

  it("DL-22 DL-23 DL-27 a signature that is waited for: by the deadline, not sent, in no error of the vendor's own", async () => {
    const storage = boundStorage(vendor, "http://127.0.0.1:9");
    let asked = 0;
    const auth = {
      sign: () => new Promise(() => (asked += 1)),
      getCredentials: () => Promise.resolve({ client_email: "a@b" }),
    };
    Object.assign((Object.getPrototypeOf(storage) as { authClient: object }).authClient, auth);
    const f = storage.bucket("b").file("f");
    const sign = () => f.getSignedUrl({ action: "read", version: "v4", expires: systemClock.wallMs() + 60_000 });
    const failed = await endsByBound(sign, () => asked === 1);
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
    const aborted = new AbortController();
    const canceled = failure(() => withDeadline(Infinity as Instant, sign, { signal: aborted.signal }));
    await until("it is asked for", () => asked === 2);
    aborted.abort();
    expect(await canceled).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
  });

  it("DL-06 DL-27 no error has the token, a secret, or the address of an upload session in it", async () => {
    const endpoint = await gcsServer(token);
    const seen: unknown[] = [];
    const refusedPut: Answering = (response, request) =>
      (request.method === "PUT" ? says.error(403) : objects().answering)(response, request);
    const resetPut: Answering = (response, request) =>
      (request.method === "PUT" ? says.reset : objects().answering)(response, request);
    for (const answering of [says.error(404), says.error(503), says.reset, says.cut, refusedPut, resetPut]) {
      const storage = withTokens(vendor, await gcsServer(answering), endpoint.url, { maxAttempts: 1 });
      const f = storage.bucket("b").file("f");
      for (const call of [() => read(storage), () => save(storage), () => f.download(), () => f.delete()]) {
        await call().then(
          () => undefined,
          (error: unknown) => seen.push(error),
        );
      }
      await new Promise<void>((resolve) => {
        void f.getMetadata((...given: unknown[]) => {
          if (given[0]) seen.push(given);
          resolve();
        });
      });
    }
    const broken = await gcsServer(says.json({ error: "invalid_client", error_description: "no" }, 401));
    seen.push(await failure(() => read(withTokens(vendor, broken, broken.url))));
    expect(seen.length).toBeGreaterThan(20);
    const text = inspect(seen, { depth: 20, showHidden: true });
    expect(text).toContain("REQUEST_FAILED");
    for (const secret of ["t0ken-value", "cl1ent-secret", "r3fresh", "s3cret-session"])
      expect(text).not.toContain(secret);
  });
}
