// A git program that does what a test says around its calls, and writes down what it was called with. The store starts git with an environment of its own, so that
// everything it needs is in the program's text.
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Shell commands around one call of git. `$SELF` is the store's process; where `$SKIP` is made a file, git is not called and fails. */
export type Around = {
  /** The command of git (`push`, `fetch`, `fast-import`, …), and which of its calls, from 1; null: each. */
  readonly command: string;
  readonly call: number | null;
  readonly before?: string;
  /** After git has ended; `$code` is its exit code, and what is set to it is the program's. */
  readonly after?: string;
};

export type WrappedGit = {
  readonly program: string;
  /** The commands of git that were called so far, in order: `ls-remote`, `push`, … */
  calls(): Promise<readonly string[]>;
  /** Everything that stood in an argument of any call. */
  args(): Promise<string>;
};

/** Makes the program in a folder of its own. */
export async function wrappedGit(folder: string, around: readonly Around[] = []): Promise<WrappedGit> {
  const own = join(folder, `git-${Math.random().toString(36).slice(2)}`);
  await mkdir(own);
  const program = join(own, "git");
  const log = join(own, "log");
  const cases = (when: "before" | "after"): string =>
    around
      .filter((one) => one[when] !== undefined)
      .map(({ command, call, [when]: text = "" }) => {
        const nth = call === null ? "" : ` && test "$n" = ${call}`;
        return `if test "$command" = ${command}${nth}; then\n(${when === "before" ? text : "true"})\n${when === "after" ? text : ""}\nfi`;
      })
      .join("\n");
  await writeFile(
    program,
    `#!/bin/sh
SELF=$PPID
skip=
command=
for one in "$@"; do
  if test -n "$skip"; then skip=; continue; fi
  case $one in -c) skip=1 ;; *) command=$one; break ;; esac
done
printf '%s\\n' "$*" >> '${log}.args'
echo "$command" >> '${log}'
n=$(grep -cx -- "$command" '${log}')
SKIP='${log}.skip'
rm -f "$SKIP"
${cases("before")}
if test -e "$SKIP"; then exit 128; fi
git "$@"
code=$?
${cases("after")}
exit $code
`,
  );
  await chmod(program, 0o755);
  const read = (file: string): Promise<string> => readFile(file, "utf8").catch(() => "");
  return {
    program,
    calls: async () => (await read(log)).split("\n").filter((line) => line !== ""),
    args: () => read(`${log}.args`),
  };
}
