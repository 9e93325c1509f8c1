/** What this adapter uses of a client of the AWS SDK v3. Structural: any service's client has it, of any 3.x release. */
export interface VendorInternals {
  readonly config: { readonly requestHandler: VendorHandler };
  readonly middlewareStack: VendorStack;
  readonly send: (this: object, command: object, options: object) => Promise<unknown>;
}

/** The vendor's transport. `NodeHttpHandler` goes through `node:http`; others need not. */
export interface VendorHandler {
  handle(request: VendorRequest, options?: VendorSendOptions): Promise<{ response: VendorResponse }>;
  destroy?(): void;
  updateHttpClientConfig?(key: never, value: never): void;
  httpHandlerConfigs?(): object;
}

export interface VendorRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
}

export interface VendorResponse {
  readonly statusCode: number;
  readonly body?: unknown;
}

export interface VendorSendOptions {
  readonly abortSignal?: unknown;
}

type Middleware = (next: (args: unknown) => Promise<unknown>) => (args: unknown) => Promise<unknown>;

export interface VendorStack {
  clone(): VendorStack;
  add(middleware: Middleware, options: object): void;
}

/** The client's insides, or a TypeError for something that is no client of the AWS SDK v3. */
export function internalsOf(client: object): VendorInternals {
  const inner = client as { [K in keyof VendorInternals]?: Partial<VendorInternals[K]> };
  if (
    typeof inner.send !== "function" ||
    typeof inner.config?.requestHandler?.handle !== "function" ||
    typeof inner.middlewareStack?.clone !== "function"
  ) {
    throw new TypeError(
      "bind needs a client of the AWS SDK v3, such as S3Client: one with send, config.requestHandler and middlewareStack",
    );
  }
  return inner as VendorInternals;
}

/**
 * The client's middleware without the vendor's retries: one attempt is one request, and another one is this package's
 * decision. Replaced, not removed, because the vendor places signing relative to it.
 */
export function withoutRetries(stack: VendorStack): VendorStack {
  const own = stack.clone();
  own.add((next) => next, {
    name: "retryMiddleware",
    step: "finalizeRequest",
    priority: "high",
    tags: ["RETRY"],
    override: true,
  });
  return own;
}
