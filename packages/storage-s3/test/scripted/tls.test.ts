// Goal: a private certificate authority is trusted when it is given and only then.
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { s3Store } from "@holdfast/storage-s3";
import {
  authority,
  otherAuthority,
  serverCertificate,
  serverKey,
} from "../../../deadline-http/test/support/certificates.js";

const never = new AbortController().signal;

it("SP-14 a server with a private authority: its own is trusted, another and none are refused by the option's name, nothing sent", async () => {
  let requests = 0;
  const server = createServer({ key: serverKey, cert: serverCertificate }, (request, response) => {
    requests++;
    request.resume().on("end", () => response.writeHead(200, { etag: '"e"' }).end());
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const put = (ca?: string) => {
    const credentials = { accessKeyId: "key-id", secretAccessKey: "hidden-key" };
    const endpoint = `https://localhost:${(server.address() as AddressInfo).port}`;
    const store = s3Store({ endpoint, bucket: "b", credentials, random: () => 0, ...(ca === undefined ? {} : { ca }) });
    return store.put("k", new Uint8Array(5), { mode: "create", signal: never });
  };
  expect(await put(authority)).toMatchObject({ outcome: "created" });
  expect(requests).toBe(1);
  for (const ca of [otherAuthority, undefined]) {
    const refused = await put(ca);
    expect(refused.outcome).toBe("failed");
    expect("error" in refused && refused.error.message).toContain("option ca");
  }
  expect(requests).toBe(1);
});
