// Goal: an error says no more than it proves. Method: errors as Node and the SDK make them, through the one mapping.
import { expect, it } from "vitest";
import { failureOf } from "../../src/failure.js";

const asked = { what: "PUT of k", bucket: "b", checksum: "crc32", handed: true, conditional: true } as const;
const stored = (code: string): string => failureOf(Object.assign(new Error("made up"), { code }), asked).stored;

it.each([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "CERT_HAS_EXPIRED",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ERR_TLS_CERT_ALTNAME_INVALID",
])("%s ends the handshake: nothing is stored", (code) => expect(stored(code)).toBe("no"));

it.each(["ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC", "ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR", "EPROTO"])(
  "%s can come after the body was sent: it may be stored",
  (code) => expect(stored(code)).toBe("maybe"),
);

it("the words of an error that is not Node's own go no further, its code does", () => {
  const own = Object.assign(new Error("no use for the token hidden-token"), { code: "TOKEN_REFUSED" });
  const { error } = failureOf(own, asked);
  expect(`${error.message} ${String(error.cause)}`).not.toContain("hidden-token");
  expect(error.cause).toMatchObject({ code: "TOKEN_REFUSED" });
  const reset = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" });
  expect(failureOf(reset, asked).error.cause).toMatchObject({ code: "ECONNRESET", message: "read ECONNRESET" });
});

// Red without `inside ? "maybe"` in `answered`.
it.each(["SlowDown", "AccessDenied", "InvalidToken", "EntityTooLarge", "NoSuchBucket", "BadDigest"])(
  "%s refuses when it comes as a 503, and proves nothing inside a 200, of which the SDK makes a 503",
  (Code) => {
    const thrown = Object.assign(new Error("made up"), { Code, $metadata: { httpStatusCode: 503 } });
    expect(failureOf(thrown, { ...asked, cameAs: 200 })).toMatchObject({
      stored: "maybe",
      error: { message: expect.stringContaining(`answered 200, with the error ${Code} inside`) as string },
    });
    // A denial is one by its status; as a 503 it is only a server with a problem.
    expect(failureOf(thrown, { ...asked, cameAs: 503 }).stored).toBe(Code === "AccessDenied" ? "maybe" : "no");
  },
);
