// AWS's signature, version 4, anew: for a request that was changed between a client and its server, both of them the test's own.
import { createHash, createHmac } from "node:crypto";

/** A request as it goes over the wire; `path` and `query` as they are spelled there. */
export type Exchange = {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** The request under a signature that fits it: of the same time and scope, and of those signed headers that it still has. */
export function resigned(request: Exchange, secretAccessKey: string): Exchange {
  const { headers } = request;
  const given = /Credential=([^/]+)\/([^,]+), *SignedHeaders=([^,]+),/.exec(headers["authorization"] ?? "");
  if (given === null) throw new Error(`${request.method} ${request.path} is not signed`);
  const [, accessKeyId = "", scope = "", names = ""] = given;
  const signed = names.split(";").filter((name) => name in headers);
  const lines = signed.map((name) => `${name}:${(headers[name] ?? "").trim().replace(/ +/g, " ")}\n`);
  const { method, path, query } = request;
  const hash = headers["x-amz-content-sha256"] ?? "";
  const whole = [method, path, query, lines.join(""), signed.join(";"), hash].join("\n");
  const text = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256(whole)].join("\n");
  const key = scope.split("/").reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`);
  const signature = hmac(key, text).toString("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${signed.join(";")}, Signature=${signature}`;
  return { ...request, headers: { ...headers, authorization } };
}

/** A query in the order and the spelling that the signature is made of. */
export function spelled(query: URLSearchParams): string {
  const spell = (text: string): string =>
    encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return [...query]
    .map(([name, value]) => `${spell(name)}=${spell(value)}`)
    .sort()
    .join("&");
}
