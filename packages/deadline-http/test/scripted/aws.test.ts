// Goal: ./aws keeps the bounds, outcomes and retry rules that every adapter keeps.
// Method: the real S3Client against a scripted server, through the table that all adapters share.
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { boundS3, sdk, stored } from "../support/aws.js";
import { adapterCells } from "../support/cells.js";

adapterCells({
  name: "./aws",
  written: stored,
  client: (url, { maxAttempts, ...agent } = {}) => {
    const s3 = boundS3(
      url,
      { maxAttempts },
      {
        requestHandler: {
          httpAgent: new HttpAgent({ keepAlive: true, ...agent }),
          httpsAgent: new HttpsAgent({ keepAlive: true, ...agent, rejectUnauthorized: false }),
        },
      },
    );
    return {
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
