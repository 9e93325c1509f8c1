// Goal: ./aws keeps the bounds, outcomes and retry rules that every adapter keeps.
// Method: the real S3Client against a scripted server, through the table that all adapters share.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { boundS3, sdk, stored } from "../support/aws.js";
import { adapterCells } from "../support/cells.js";

adapterCells({
  name: "./aws",
  written: stored,
  client: (url, { maxAttempts, clock, ...o } = {}) => {
    const agent = new HttpAgent({ keepAlive: true, ...o });
    const httpsAgent = new HttpsAgent({ keepAlive: true, ...o, rejectUnauthorized: false });
    const s3 = boundS3(url, { maxAttempts, clock }, { requestHandler: { httpAgent: agent, httpsAgent } });
    return {
      agent,
      read: async (signal) => {
        const { Body } = await s3.send(
          new sdk.GetObjectCommand({ Bucket: "b", Key: "k" }),
          signal && { abortSignal: signal },
        );
        return Body!.transformToByteArray();
      },
      write: (signal) =>
        s3.send(
          new sdk.PutObjectCommand({ Bucket: "b", Key: "k", Body: "x".repeat(300) }),
          signal && { abortSignal: signal },
        ),
    };
  },
});
