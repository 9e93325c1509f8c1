// S3 clients for tests: plain and bound, destroyed when the test is over, and the answers a store gives.
import * as sdk from "@aws-sdk/client-s3";
import type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import { onTestFinished } from "vitest";
import { bind, type BindOptions } from "@holdfast/deadline-http/aws";
import type { Answer } from "./scripted-server.js";

export { sdk };

export const credentials = { accessKeyId: "key-id", secretAccessKey: "hidden-key", sessionToken: "hidden-session" };

export function plainS3(url: string, o: S3ClientConfig = {}): S3Client {
  const client = new sdk.S3Client({
    region: "eu-west-1",
    endpoint: url,
    forcePathStyle: true,
    credentials,
    // The SDK warns on the console of a socket that is waited for, which is what some tests are about.
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    ...o,
  });
  onTestFinished(() => client.destroy());
  return client;
}

export const boundS3 = (url: string, o: BindOptions = {}, config: S3ClientConfig = {}): S3Client =>
  bind(plainS3(url, config), o);

/** As S3 answers an error; without a code, as a proxy before it does. */
export const s3Error =
  (status: number, code: string | null, headers: Record<string, string> = {}, more = ""): Answer =>
  (response) => {
    const text = code === null ? "" : `<Error><Code>${code}</Code><Message>made up</Message>${more}</Error>`;
    response.writeHead(status, { "content-type": "application/xml", ...headers });
    response.end(text);
  };

export const stored: Answer = (response) => response.writeHead(200, { etag: '"e"' }).end();

export const object =
  (text: string, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(200, { "content-length": String(Buffer.byteLength(text)), ...headers }).end(text);

/** An object of which tests speak, and requests for it. */
export const at = { Bucket: "b", Key: "k" };
export const get = (s3: S3Client) => s3.send(new sdk.GetObjectCommand(at));
export const put = (s3: S3Client) => s3.send(new sdk.PutObjectCommand({ ...at, Body: "text" }));

/** Waits until the server's connections are gone. */
export const allClosed = async (sockets: readonly { readonly destroyed: boolean }[]): Promise<void> => {
  while (!sockets.every(({ destroyed }) => destroyed)) await new Promise((resolve) => setImmediate(resolve));
};
