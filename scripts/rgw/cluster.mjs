// The smallest Ceph that serves S3: one monitor, one store in memory, one gateway, each a process of its own in one folder.
import { spawn, spawnSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { configuration } from "./configuration.mjs";
import { signedRequest } from "./signed.mjs";

const bucket = "holdfast";
const region = "us-east-1";
const startMs = 90_000;

/**
 * Starts a cluster in `dir`, made anew unless one was kept there, and answers when it has stored and deleted an object.
 * @param endWithParent the kernel ends the daemons when this process dies, however it dies
 */
export async function startCluster(dir, { endWithParent = false }) {
  mkdirSync(dir, { recursive: true });
  const kept = existsSync(stateFile(dir));
  if (!kept && readdirSync(dir).length > 0)
    throw new Error(`${dir} is not empty and holds no cluster; choose another folder`);
  const state = kept ? readState(dir) : await newState(dir);
  if (alive(state, dir).length > 0)
    throw new Error(`a cluster runs in ${dir} already; stop it first: rgw.mjs stop ${dir}`);
  if (kept) Object.assign(state, { port: await freePort(), pids: {} });
  else ["mon", "osd", "rgw", "log"].forEach((folder) => mkdirSync(join(dir, folder)));
  writeFileSync(join(dir, "ceph.conf"), configuration(dir, state));
  const daemon = (name, program, ...args) => {
    state.pids[name] = launch(dir, name, endWithParent, program, [...args, "-f", "-c", join(dir, "ceph.conf")]);
    writeState(dir, state);
  };
  const store = () => daemon("osd", "ceph-osd", "-i", "0");
  const tool = (program, ...args) => runTool(dir, program, args);
  try {
    if (!kept) makeMonitor(dir, state, tool);
    daemon("mon", "ceph-mon", "-i", "a");
    if (!kept) makeStore(state, tool);
    store();
    daemon("rgw", "radosgw", "-n", "client.rgw");
    const server = describe(dir, state);
    await until(dir, state, store, () => answers(server.endpoint));
    if (!kept) makeUser(state, tool);
    await until(dir, state, store, () => storesAnObject(server));
    return server;
  } catch (error) {
    await stopCluster(dir, { keep: false });
    if (!kept) for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true, force: true });
    throw error;
  }
}

/** Ends a cluster's processes, by pid. `keep` lets the store write what it has in memory to its folder first. */
export async function stopCluster(dir, { keep }) {
  if (!existsSync(stateFile(dir))) return;
  const state = readState(dir);
  for (const name of ["rgw", "osd", "mon"]) {
    const pid = state.pids[name];
    const runs = () => alive(state, dir).includes(name);
    if (pid === undefined || !runs()) continue;
    process.kill(pid, keep ? "SIGTERM" : "SIGKILL");
    for (let i = 0; i < 600 && runs(); i += 1) await sleep(50);
    if (runs()) process.kill(pid, "SIGKILL");
  }
  state.pids = {};
  writeState(dir, state);
}

async function newState(dir) {
  if (/[\s;#]/.test(dir))
    throw new Error(`Ceph's configuration cannot name ${dir}: no spaces, ; or # in the folder's path`);
  const [monPort, port] = [await freePort(), await freePort()];
  const secretAccessKey = randomBytes(20).toString("hex");
  return { monPort, port, fsid: randomUUID(), osd: randomUUID(), accessKeyId: "holdfast", secretAccessKey, pids: {} };
}

function makeMonitor(dir, state, tool) {
  const map = join(dir, "monmap");
  const address = `[v1:127.0.0.1:${state.monPort}]`;
  tool("monmaptool", "--create", "--clobber", "--addv", "a", address, "--fsid", state.fsid, map);
  tool("ceph-mon", "-i", "a", "--mkfs", "--monmap", map, "-c", join(dir, "ceph.conf"));
}

function makeStore(state, tool) {
  tool("ceph", "osd", "new", state.osd);
  tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", state.osd);
}

function makeUser(state, tool) {
  const keys = [`--access-key=${state.accessKeyId}`, `--secret-key=${state.secretAccessKey}`];
  tool("radosgw-admin", "user", "create", "--uid=holdfast", "--display-name=holdfast", ...keys);
}

const stateFile = (dir) => join(dir, "cluster.json");
const readState = (dir) => JSON.parse(readFileSync(stateFile(dir), "utf8"));
const writeState = (dir, state) => writeFileSync(stateFile(dir), JSON.stringify(state), { mode: 0o600 });

const describe = (dir, { port, accessKeyId, secretAccessKey }) => ({
  endpoint: `http://127.0.0.1:${port}`,
  bucket,
  region,
  accessKeyId,
  secretAccessKey,
  dir,
});

/** Names of the daemons that run. A pid may be somebody else's by now: the command line must name our folder. */
function alive(state, dir) {
  return Object.keys(state.pids).filter((name) => {
    try {
      return readFileSync(`/proc/${state.pids[name]}/cmdline`, "utf8").split("\0").includes(join(dir, "ceph.conf"));
    } catch {
      return false;
    }
  });
}

function launch(dir, name, endWithParent, program, args) {
  const log = openSync(join(dir, "log", `${name}.out`), "a");
  const bound = endWithParent ? ["setpriv", ["--pdeathsig", "KILL", program, ...args]] : [program, args];
  const child = spawn(...bound, { stdio: ["ignore", log, log], detached: true });
  closeSync(log);
  child.on("error", () => undefined); // seen by `until`: it does not run
  child.unref();
  return child.pid;
}

function runTool(dir, program, args) {
  const own = program === "monmaptool" || args.includes("-c") ? [] : ["-c", join(dir, "ceph.conf")];
  const done = spawnSync(program, [...args, ...own], { encoding: "utf8", timeout: startMs });
  if (done.status === 0) return;
  throw new Error(
    `${program} ${args[0]} ended with ${done.status ?? done.signal}: ${(done.stderr ?? "").slice(-2000)}`,
  );
}

/** Waits until the server answers as it should, or one of its daemons ends. */
async function until(dir, state, startStore, ready) {
  const end = performance.now() + startMs;
  let storeStarts = 0;
  for (;;) {
    if (await ready()) return;
    const gone = Object.keys(state.pids).filter((name) => !alive(state, dir).includes(name));
    // A store that asks the monitor before it was told the monitor's map is refused ("wrong fsid") and ends: it starts again.
    if (gone.length === 1 && gone[0] === "osd" && (storeStarts += 1) <= 5) {
      startStore();
      continue;
    }
    if (gone.length > 0 || performance.now() > end) {
      const why = gone.length > 0 ? `${gone.join(", ")} ended` : `it was not ready within ${startMs} ms`;
      const logs = (gone.length > 0 ? gone : ["rgw"]).map((name) =>
        readFileSync(join(dir, "log", `${name}.out`), "utf8"),
      );
      throw new Error(`the server did not start: ${why}\n${logs.join("\n").slice(-2000)}`);
    }
    await sleep(100);
  }
}

const answers = (endpoint) =>
  fetch(endpoint).then(
    () => true,
    () => false,
  );

async function storesAnObject(server) {
  try {
    const made = await signedRequest(server, "PUT", `/${bucket}`);
    if (made !== 200 && made !== 409) return false;
    // The first object makes the pools that hold objects.
    if ((await signedRequest(server, "PUT", `/${bucket}/.ready`)) !== 200) return false;
    return (await signedRequest(server, "DELETE", `/${bucket}/.ready`)) === 204;
  } catch {
    return false;
  }
}

/** A port that was free a moment ago. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
