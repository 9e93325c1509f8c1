// The one request that the script itself makes of the server, signed as S3 demands (AWS signature, version 4).
import { createHash, createHmac } from "node:crypto";
import { request } from "node:http";

const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

/** Sends a request without a body; answers its status. */
export function signedRequest({ endpoint, region, accessKeyId, secretAccessKey }, method, path) {
  const { host } = new URL(endpoint);
  const date = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const day = date.slice(0, 8);
  const hash = sha256("");
  const signedNames = "host;x-amz-content-sha256;x-amz-date";
  const headers = `host:${host}\nx-amz-content-sha256:${hash}\nx-amz-date:${date}\n`;
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = `AWS4-HMAC-SHA256\n${date}\n${scope}\n${sha256([method, path, "", headers, signedNames, hash].join("\n"))}`;
  const key = [day, region, "s3", "aws4_request"].reduce(hmac, `AWS4${secretAccessKey}`);
  const signature = hmac(key, text).toString("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${signedNames}, Signature=${signature}`;
  return new Promise((resolve, reject) => {
    const sent = request(
      `${endpoint}${path}`,
      { method, headers: { authorization, "x-amz-content-sha256": hash, "x-amz-date": date, "content-length": "0" } },
      (answer) => answer.resume().on("end", () => resolve(answer.statusCode)),
    );
    sent
      .setTimeout(20_000, () => sent.destroy(new Error("no answer in 20 s")))
      .on("error", reject)
      .end();
  });
}
