import { patient } from "@holdfast-private/tests-machine";
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Sees each statement before the server does, and again when the server has answered it. "drop" ends the client's connection. */
export type Watcher = (moment: "before" | "after", statement: string) => "drop" | undefined;

/** Between a service and ClickHouse: shows every statement to a watcher. */
export class Statements {
  readonly #server: Server;

  private constructor(
    private readonly upstream: URL,
    private readonly watch: Watcher,
  ) {
    this.#server = patient(createServer((incoming, outgoing) => this.#take(incoming, outgoing)));
  }

  static async open(upstream: string, watch: Watcher): Promise<Statements> {
    const statements = new Statements(new URL(upstream), watch);
    await new Promise<void>((resolve) => statements.#server.listen(0, "127.0.0.1", resolve));
    return statements;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("error", () => outgoing.destroy());
    incoming.on("end", () => {
      const body = Buffer.concat(parts);
      const query = new URL(incoming.url ?? "/", this.upstream).searchParams.get("query") ?? "";
      // Rows follow an INSERT in the body; its first words name the table.
      const statement = `${query} ${body.subarray(0, 300).toString()}`.trim();
      if (this.watch("before", statement) === "drop") outgoing.destroy();
      else this.#pass(incoming, body, outgoing, statement);
    });
  }

  #pass(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, statement: string): void {
    const { host } = this.upstream;
    const headers = { ...incoming.headers, host, connection: "close" };
    const onward = request(
      new URL(incoming.url ?? "/", this.upstream),
      { method: incoming.method, headers },
      (answer) => {
        const passed = { ...answer.headers };
        delete passed.connection;
        delete passed["keep-alive"];
        if (this.watch("after", statement) === "drop") {
          answer.resume();
          outgoing.destroy();
          return;
        }
        outgoing.writeHead(answer.statusCode ?? 500, passed);
        answer.pipe(outgoing);
      },
    );
    onward.on("error", () => outgoing.destroy());
    onward.end(body);
  }
}
