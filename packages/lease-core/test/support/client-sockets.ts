import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** The connections that this process makes to a port, from now on. */
export class ClientSockets implements Disposable {
  /** How many the port has refused. */
  refused = 0;
  /** How many are open, as this process sees it. */
  open = 0;
  readonly #port: number;

  constructor(url: string) {
    this.#port = Number(new URL(url).port);
    subscribe("net.client.socket", this.#watch);
  }

  readonly #watch = (message: unknown): void => {
    const { socket } = message as { socket: Socket };
    socket.once("error", ({ code, port }: Error & { code?: string; port?: number }) => {
      if (code === "ECONNREFUSED" && port === this.#port) this.refused += 1;
    });
    socket.once("connect", () => {
      if (socket.remotePort !== this.#port) return;
      this.open += 1;
      socket.once("close", () => (this.open -= 1));
    });
  };

  [Symbol.dispose](): void {
    unsubscribe("net.client.socket", this.#watch);
  }
}
