// A fault server behind a fault proxy, both gone when the test is over.
import { onTestFinished } from "vitest";
import {
  startFaultProxy,
  startFaultServer,
  type FaultProxy,
  type FaultProxyOptions,
  type FaultServer,
  type FaultServerOptions,
} from "@holdfast/testkit";

export async function server(o: FaultServerOptions = {}): Promise<FaultServer> {
  const made = await startFaultServer({ otherwise: { body: "fine" }, ...o });
  onTestFinished(() => made[Symbol.asyncDispose]());
  return made;
}

export async function proxyBefore(port: number, o: Partial<FaultProxyOptions> = {}): Promise<FaultProxy> {
  const made = await startFaultProxy({ target: { port }, ...o });
  onTestFinished(() => made[Symbol.asyncDispose]());
  return made;
}

export async function pair(
  o: Partial<FaultProxyOptions> = {},
  s: FaultServerOptions = {},
): Promise<{ proxy: FaultProxy; server: FaultServer }> {
  const behind = await server(s);
  return { server: behind, proxy: await proxyBefore(behind.port, o) };
}
