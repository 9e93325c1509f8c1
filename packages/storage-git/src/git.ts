import {
  abortError,
  errorCode,
  ObjectStoreError,
  onAbort,
  throwIfAborted,
  untilAborted,
  type Limiter,
} from "@holdfast/object-store";
import { gitEnvironment, gitSettings } from "./environment.js";
import { failureError, kindOf, redacted, shortened, type GitFailure } from "./failure.js";
import type { GitCredentials, Settings } from "./options.js";
import { startProcess, type Ended, type Running } from "./process.js";

/** What a command is run with. Its end when `signal` is aborted comes after its process has ended, so that what it held is free. */
export type GitCall = { readonly signal: AbortSignal; readonly input?: readonly Uint8Array[] };
/** What an exchange with the remote came to: all that git printed, or which kind of failure it was. */
export type Exchanged =
  | { readonly out: Ended; readonly failure?: undefined }
  /** `shown` makes text that came from the remote fit for a message: without credentials, short, in one line. */
  | { readonly out: Ended; readonly failure: GitFailure; readonly shown: (text: string) => string };

/** How git hands over credentials: it runs this, which reads them from a descriptor that only it and its children have. */
const helper = `credential.helper=!f() { test "$1" = get && cat <&3; }; f`;

/** Runs git on the clone of one store, with nothing of the machine's or the caller's settings. */
export class Git {
  readonly #settings: Settings;
  readonly #clone: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #few: Limiter;
  /** Called when a process was ended before it had finished (it may have left lock files in the clone), and when the clone is damaged. */
  readonly #onTrouble: (trouble: "cut" | "damaged") => void;

  constructor(
    settings: Settings,
    o: { readonly clone: string; readonly few: Limiter; readonly onTrouble: (trouble: "cut" | "damaged") => void },
  ) {
    this.#settings = settings;
    this.#clone = o.clone;
    this.#few = o.few;
    this.#onTrouble = o.onTrouble;
    this.#environment = gitEnvironment(settings, o.clone, process.env);
  }

  /** Runs a command that needs the clone only. A failure means that the clone is damaged: `UNAVAILABLE`, with git's output; the next call makes a new clone. */
  async local(args: readonly string[], o: GitCall): Promise<Buffer> {
    const { out } = await this.#run([...gitSettings, ...args], o, null, null);
    if (out.code === 0) return out.stdout;
    this.#onTrouble("damaged");
    const said = shortened(out.stderr);
    throw new ObjectStoreError(
      "UNAVAILABLE",
      `git ${args[0]} failed in the clone ${this.#clone}: ${said}; try again, with a new clone`,
    );
  }

  /**
   * Runs a command that talks with the remote, bound by `requestTimeoutMs` too. Failures of git are returned, with what it printed, and hold no
   * credentials; rejects as the signal says, and with `CONFIG_INVALID` for credentials that cannot be.
   */
  async exchange(what: string, args: readonly string[], o: GitCall): Promise<Exchanged> {
    const { credentials, requestTimeoutMs } = this.#settings;
    const secret = credentials === null ? null : await obtained(credentials, o.signal);
    const withHelper = secret === null ? [] : ["-c", helper];
    const shown = (text: string): string => shortened(redacted(text, secret));
    const { out, timedOut } = await this.#run([...gitSettings, ...withHelper, ...args], o, secret, requestTimeoutMs);
    if (timedOut) {
      const slow = `${what} was not answered within ${requestTimeoutMs} ms (requestTimeoutMs)`;
      return { out, shown, failure: { kind: "transient", error: new ObjectStoreError("UNAVAILABLE", slow) } };
    }
    if (out.code === 0) return { out };
    const kind = kindOf(out.code, out.stderr);
    return { out, shown, failure: { kind, error: failureError(kind, what, shown(out.stderr)) } };
  }

  #run(
    args: readonly string[],
    o: GitCall,
    secret: GitCredentials | null,
    timeoutMs: number | null,
  ): Promise<{ readonly out: Ended; readonly timedOut: boolean }> {
    return this.#few(async () => {
      throwIfAborted(o.signal);
      const running = this.#start(args, o, secret);
      const late = { isOver: false };
      const cut = (): void => {
        this.#onTrouble("cut");
        running.end();
      };
      const forget = onAbort(o.signal, cut);
      const timer =
        timeoutMs === null
          ? null
          : this.#settings.clock.setTimer(timeoutMs, () => {
              late.isOver = true;
              cut();
            });
      try {
        const out = await running.ended;
        if (isAborted(o.signal)) throw abortError(o.signal);
        // What had ended by itself when the timer fired has an answer.
        return { out, timedOut: late.isOver && out.code !== 0 };
      } catch (error) {
        throw isAborted(o.signal) ? abortError(o.signal) : notStarted(error, this.#settings.git);
      } finally {
        timer?.cancel();
        forget();
      }
    }, o.signal);
  }

  #start(args: readonly string[], o: GitCall, secret: GitCredentials | null): Running {
    const { git, clock } = this.#settings;
    return startProcess(
      { program: git, args, cwd: this.#clone },
      {
        env: this.#environment,
        input: o.input ?? [],
        secret: secret === null ? null : `username=${secret.username}\npassword=${secret.password}\n`,
        clock,
      },
    );
  }
}

/** Ends with the signal, whatever the caller's function waits for. */
async function obtained(credentials: () => Promise<GitCredentials>, signal: AbortSignal): Promise<GitCredentials> {
  try {
    return await untilAborted(credentials(), signal);
  } catch (error) {
    if (isAborted(signal) || errorCode(error) !== undefined) throw error;
    throw new ObjectStoreError("ACCESS_DENIED", "the function in the option credentials failed; see the cause", {
      cause: error,
    });
  }
}

const isAborted = (signal: AbortSignal): boolean => signal.aborted;

function notStarted(error: unknown, git: string): unknown {
  const code = (error as { readonly code?: unknown }).code;
  if (error instanceof ObjectStoreError || typeof code !== "string") return error;
  if (code === "ENOENT" || code === "EACCES") {
    const advice = "install git 2.31 or newer, or name it in the option git";
    return new ObjectStoreError("CONFIG_INVALID", `${git} cannot be started (${code}); ${advice}`, { cause: error });
  }
  return new ObjectStoreError("UNAVAILABLE", `${git} cannot be started (${code}); try again`, { cause: error });
}
