// A real rendezvous with a page, and agents of a job, each on a "node" with a host name of its own.
import {spawn, spawnSync} from "node:child_process";
import {existsSync, mkdtempSync, readFileSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {setTimeout as sleep} from "node:timers/promises";

const kDdprun = process.env.DDPRUN;

export async function until(what, condition, ms = 30000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited ${ms} ms for ${what}`);
    await sleep(10);
  }
}

// Whether this process may give a child a host name of its own.
export function canNameHosts() {
  return spawnSync("unshare", ["--uts", "hostname", "n1"]).status === 0;
}

export class Cluster {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "ddprun-page-"));
    this.children = [];
  }

  async start() {
    const file = join(this.folder, "port");
    this.spawn([kDdprun, "rendezvous", "--listen", "127.0.0.1:0", "--port-file", file, "--http", "127.0.0.1:0"]);
    await until("the rendezvous", () => existsSync(file) && readFileSync(file, "utf8") !== "");
    this.endpoint = `127.0.0.1:${readFileSync(file, "utf8").trim()}`;
  }

  // A link that signs in, as `ddprun page` prints it.
  link(job) {
    const answer = spawnSync(kDdprun, ["page", ...(job ? [job] : []), "--rdzv-endpoint", this.endpoint], {encoding: "utf8"});
    if (answer.status !== 0) throw new Error(`ddprun page: ${answer.stderr}`);
    return answer.stdout.split("\n")[0];
  }

  // Two workers that print and count, each in the file pid.GENERATION.RANK.
  addNode(number) {
    const script = `echo $$ >${this.folder}/pid.$DDPRUN_GENERATION.$RANK; echo "hello <b>from</b> rank $RANK"; exec sleep 1000`;
    this.spawn(["unshare", "--uts", "/bin/sh", "-c", `hostname n${number}; exec "$@"`, "sh",
                kDdprun, "--rdzv-endpoint", this.endpoint, "--rdzv-id", "train", "--nnodes", "1:2", "--nproc-per-node", "2",
                "--local-addr", `127.0.0.${number}`, "--log-dir", join(this.folder, String(number)), "--max-restarts", "3",
                "--rdzv-conf", "last_call_timeout=1", "--stop-grace", "1s", "--no-python", "/bin/sh", "-c", script]);
  }

  spawn(command) {
    this.children.push(spawn(command[0], command.slice(1), {stdio: "ignore"}));
  }

  async killWorker(generation, rank) {
    const file = join(this.folder, `pid.${generation}.${rank}`);
    await until(file, () => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"));
    process.kill(Number(readFileSync(file, "utf8")), "SIGKILL");
  }

  async stop() {
    for (const child of this.children.reverse()) child.kill("SIGTERM");
    await Promise.all(this.children.map((child) => child.exitCode !== null || child.signalCode !== null ||
      new Promise((resolve) => child.on("exit", resolve))));
    rmSync(this.folder, {recursive: true});
  }
}
