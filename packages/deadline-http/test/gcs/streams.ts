// Goal: a stream of ./gcs ends by the deadline of the scope that it was made in, and what its listeners ask for is a call
// of its own in that scope. Method: the real Storage against servers of the test's own.
import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import type { Storage } from "@google-cloud/storage";
import { expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { failure } from "../support/clickhouse.js";
import { boundStorage, gcsServer, objects, says, type Answering, type Vendor } from "../support/gcs.js";
import { endsByBound } from "../support/virtual-bound.js";

const unchecked = { validation: false } as const;
const file = (storage: Storage, name = "f") => storage.bucket("b").file(name);

export function streams(vendor: Vendor): void {
  const bound = (url: string, o?: Parameters<typeof boundStorage>[2]) => boundStorage(vendor, url, o);

  it("DL-21 DL-27 left unread, they are destroyed with the scope, and their sockets", async () => {
    const server = await gcsServer(says.stalled);
    const storage = bound(server.url);
    const { reading, idle, writing } = await within(600_000, async () => {
      const reading = file(storage).createReadStream(unchecked);
      reading.once("data", () => undefined);
      const idle = file(storage).createReadStream(unchecked);
      const writing = file(storage).createWriteStream(unchecked);
      await until("one is read", () => server.received.length === 1);
      return { reading, idle, writing };
    });
    for (const stream of [reading, idle, writing]) {
      await expect(finished(stream)).rejects.toMatchObject({ code: "SCOPE_CLOSED" });
    }
    await until("the sockets go", () => server.connections.every((socket) => socket.destroyed));
    expect(server.received).toHaveLength(1);
  });

  it("DL-27 one that nobody writes to, or whose writer stalls, ends by the deadline", async () => {
    const server = await gcsServer(objects().answering);
    for (const resumable of [false, true]) {
      const idle = await endsByBound(
        () => finished(file(bound(server.url)).createWriteStream({ ...unchecked, resumable })),
        () => true,
      );
      expect(idle).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
    }
    expect(server.received).toHaveLength(0);
    const source = new PassThrough();
    source.write("begun");
    const stalled = await endsByBound(
      () => file(bound(server.url)).save(source, { ...unchecked, resumable: false }),
      () => server.bytes() > 0,
    );
    expect(stalled).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
  });

  it("DL-18 DL-27 what is read or written after its scope is not sent, whatever scope the reader is in", async () => {
    const server = await gcsServer(says.bytes("hello"));
    const storage = bound(server.url);
    const [late, listed] = await within(600_000, async () => [
      file(storage).createReadStream(unchecked),
      storage.bucket("b").getFilesStream(),
    ]);
    await expect(finished(late)).rejects.toMatchObject({ code: "SCOPE_CLOSED", outcome: "not-sent" });
    await expect(finished(listed)).rejects.toMatchObject({ code: "SCOPE_CLOSED", outcome: "not-sent" });
    const inner = await failure(() =>
      within(600_000, async () => {
        const bucket = storage.bucket("b");
        const stream = await within(600_000, async () => bucket.file("f").createReadStream(unchecked));
        for await (const chunk of stream) expect(chunk).toBeDefined();
      }),
    );
    expect(inner).toMatchObject({ code: "SCOPE_CLOSED" });
    expect(server.received).toHaveLength(0);
  });

  it("DL-27 a stream belongs to the scope it was made in, not to that of its reader", async () => {
    const rest: (() => void)[] = [];
    const server = await gcsServer((response) => {
      response.writeHead(200, { "content-length": "300010" });
      response.write(Buffer.alloc(300_000, 97));
      rest.push(() => response.end("and so on!"));
    });
    const size = await within(600_000, async () => {
      const stream = file(bound(server.url)).createReadStream(unchecked);
      const chunks = stream[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>;
      const first = await within(600_000, () => chunks.next());
      rest[0]!();
      let sum = (first.value as Buffer).length;
      for await (const chunk of chunks) sum += chunk.length;
      return sum;
    });
    expect(size).toBe(300_010);
  });

  it("DL-27 a body that breaks on the way to its reader is an error of this package, and other requests go on", async () => {
    const big = Buffer.alloc(400_000, 97);
    let answerOther = (): void => undefined;
    const server = await gcsServer((response, request) => {
      if (request.url.searchParams.get("alt") !== "media") {
        answerOther = () => says.json({ name: "f" })(response, request);
        return;
      }
      response.writeHead(200, { "content-length": "500000" });
      response.write(big, () => setTimeout(() => response.socket?.resetAndDestroy(), 20));
    });
    const storage = bound(server.url, { maxAttempts: 1 });
    const beside = file(storage).getMetadata();
    await until("the other request is there", () => server.received.length === 1);
    const failed = await failure(() => file(storage).download(unchecked));
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
    expect(server.received.filter((one) => one.url.searchParams.has("alt"))).toHaveLength(1);
    // The vendor's own clean-up after a broken body destroys the agent that all requests share.
    answerOther();
    expect(await beside).toMatchObject([{ name: "f" }, {}]);
  });

  const absent = says.error(404);
  /** Bodies come in two parts, so that their end is told by the network and not by their reader. */
  const slowly: Answering = (response, request) => {
    if (request.method === "DELETE") {
      absent(response, request);
      return;
    }
    const listing = JSON.stringify({ items: [{ name: "a" }] });
    response.writeHead(200, { "content-length": String(listing.length) }).write(listing.slice(0, 5));
    setTimeout(() => response.end(listing.slice(5)), 20);
  };
  const listeners: [string, (storage: Storage, then: () => void) => unknown][] = [
    ["the end of a download", (s, then) => file(s).createReadStream(unchecked).on("end", then).resume()],
    ["the data of a download", (s, then) => file(s).createReadStream(unchecked).once("data", then)],
    ["an object of a list", (s, then) => s.bucket("b").getFilesStream().on("data", then)],
  ];

  it.each(listeners)("a request made at %s is a call of its own, with the errors of one", async (_name, listen) => {
    const storage = bound((await gcsServer(slowly)).url);
    const failed = await failure(
      () =>
        new Promise((resolve, reject) => {
          listen(storage, () => void file(storage, "g").delete().then(resolve, reject));
        }),
    );
    // The download is no part of it: with that its outcome would be unknown.
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: 404 });
  });

  it.each(listeners)("DL-18 a request made at %s is in the scope of the stream", async (_name, listen) => {
    const server = await gcsServer((response, request) => {
      if (request.method !== "DELETE") slowly(response, request);
    });
    const storage = bound(server.url);
    let inner: unknown;
    await endsByBound(
      () =>
        new Promise(() => {
          listen(storage, () => {
            inner = failure(() => file(storage, "g").delete());
          });
        }),
      () => server.received.some(({ method }) => method === "DELETE"),
    );
    expect(await inner).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
  });
}
