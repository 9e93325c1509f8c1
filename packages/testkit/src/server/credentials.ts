// Answers of the places where clients get their credentials. All values are made up.
import type { Reply } from "./reply.js";

const json = (value: unknown): Reply => ({
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(value),
});

/** An OAuth 2 token endpoint, as Google's: `POST /token`. */
export const oauthToken = (o: { readonly token?: string; readonly expiresInSeconds?: number } = {}): Reply =>
  json({ access_token: o.token ?? "made-up-token", token_type: "Bearer", expires_in: o.expiresInSeconds ?? 3600 });

/** A container credentials endpoint of AWS (`AWS_CONTAINER_CREDENTIALS_FULL_URI`); `expiration` is ISO 8601. */
export const awsContainerCredentials = (o: { readonly expiration?: string } = {}): Reply =>
  json({
    AccessKeyId: "AKIAMADEUP",
    SecretAccessKey: "made-up-secret",
    Token: "made-up-session",
    Expiration: o.expiration ?? "2100-01-01T00:00:00Z",
  });
