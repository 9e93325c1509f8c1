// Sends one answer as its delivery says.
import type { Socket } from "node:net";
import { after } from "../system-clock.js";
import { render, type Delivery, type Reply } from "./reply.js";

/** @internal Resolves true when the connection may be used further; false when it ended or has to stay as it is. */
export async function send(socket: Socket, reply: Reply, method: string, gone: AbortSignal): Promise<boolean> {
  const { delivery = {} } = reply;
  const { head, body, closes } = render(reply, method);
  if (!(await wait(delivery.delayMs ?? 0, gone))) return false;
  const { text, stop } = portion(head, body, delivery);
  const fast =
    delivery.trickleMs === undefined || delivery.trickleHeaders === true ? 0 : Math.min(head.length, text.length);
  if (delivery.trickleMs === undefined) write(socket, text);
  else {
    write(socket, text.subarray(0, fast));
    for (let at = fast; at < text.length; at++) {
      write(socket, text.subarray(at, at + 1));
      if (!(await wait(delivery.trickleMs, gone))) return false;
    }
  }
  if (stop !== null) {
    if (stop === "rst") await flushed(socket).then(() => socket.resetAndDestroy());
    if (stop === "fin") socket.end();
    return false;
  }
  if (closes) socket.end();
  return !closes;
}

/** The bytes to send, and how it ends if not in order. */
function portion(head: Buffer, body: Buffer, d: Delivery): { text: Buffer; stop: "stall" | "fin" | "rst" | null } {
  const { stopAt } = d;
  if (stopAt === undefined) return { text: Buffer.concat([head, body]), stop: null };
  const lineEnd = head.indexOf("\r\n") + 2;
  const lengths = {
    "before-headers": 0,
    "mid-headers": lineEnd + Math.max(1, Math.floor((head.length - lineEnd - 4) / 2)),
    "before-body": head.length,
    "mid-body": head.length + (stopAt.bytes ?? Math.floor(body.length / 2)),
    end: head.length + body.length,
  };
  return { text: Buffer.concat([head, body]).subarray(0, lengths[stopAt.place]), stop: stopAt.by };
}

const write = (socket: Socket, bytes: Buffer): void => {
  if (bytes.length > 0 && socket.writable) socket.write(bytes);
};

/** A reset throws away what still waits to be sent; so wait until the system has it. */
const flushed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (!socket.writable) resolve();
    else socket.write("", () => resolve());
  });

/** Resolves true after so many ms, false at once when the signal fires first. @internal */
export function wait(ms: number, gone: AbortSignal): Promise<boolean> {
  if (ms <= 0) return Promise.resolve(!gone.aborted);
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      resolve(false);
    };
    const cancel =
      ms === Infinity
        ? () => undefined
        : after(ms, () => {
            gone.removeEventListener("abort", end);
            resolve(true);
          });
    if (gone.aborted) end();
    else gone.addEventListener("abort", end, { once: true });
  });
}
