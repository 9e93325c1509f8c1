// Goal: what a proxy began is gone with it, whatever state its connections are in. Method: a target that never completes a
// connection, and the process's own list of what is open.
import { connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { blackholePort, startFaultProxy, until } from "@holdfast/testkit";

const connecting = (): number => process.getActiveResourcesInfo().filter((name) => name === "ConnectWrap").length;

it.each(["open", "ended before"] as const)(
  "DL-32 a connection that is being made ends with the proxy: %s",
  async (how) => {
    const target = await blackholePort();
    onTestFinished(() => target[Symbol.asyncDispose]());
    await until(() => connecting() === 0);
    const proxy = await startFaultProxy({ target: { port: target.port } });
    const client = connect(proxy.port, "127.0.0.1").on("error", () => undefined);
    onTestFinished(() => void client.destroy());
    client.write("GET / HTTP/1.1\r\n\r\n");
    await proxy.until(() => (proxy.connections[0]?.bytesFromClient ?? 0) > 0);
    expect(connecting()).toBe(1);
    if (how === "ended before") proxy.cutAll("fin");
    await proxy[Symbol.asyncDispose]();
    await until(() => connecting() === 0);
  },
);
