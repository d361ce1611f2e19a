// A fake rendezvous without jobs: it serves the page, and the JSON of the test.
import {randomBytes} from "node:crypto";
import {readFileSync} from "node:fs";
import {createServer} from "node:http";
import {dirname, join} from "node:path";
import {summaryOf} from "./stories.mjs";

const kPage = join(process.env.DDPRUN_ROOT, "rendezvous/http/page/page.html");

// As CMake puts the page together.
export function assemblePage(file) {
  const part = (_, name) => readFileSync(join(dirname(file), name), "utf8");
  return readFileSync(file, "utf8").replace(/__FILE:([a-z_/.]+)__/g, part);
}

export class FakeRendezvous {
  constructor() {
    this.jobs = new Map();
    this.lines = [];
    this.logs = new Map();     // "rank/stream" -> text
    this.code = "good-code";   // works once
    this.token = null;
    this.posts = [];           // {path, body} that were accepted
    this.refusals = [];        // paths that were answered with 401 or 403
    this.streams = new Set();  // {response, job}
    this.viewersFull = false;
    this.server = createServer((request, response) => this.answer(request, response));
  }

  async start(port = 0) {
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    return `http://127.0.0.1:${this.port}/`;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
    this.streams.clear();
  }

  // Tells every viewer.
  set(...jobs) {
    for (const job of jobs) this.jobs.set(job.job, job);
    for (const stream of this.streams) this.sendState(stream);
  }

  addLine(line) {
    this.lines.push(line);
    for (const stream of this.streams) if (stream.job !== null) send(stream.response, "line", line);
  }

  say(name, value) {
    for (const stream of this.streams) send(stream.response, name, value);
  }

  list() {
    return {time: new Date().toISOString(), daemon: {version: "0.1.0", uptime_ms: 86400000, sessions: 4},
            jobs: [...this.jobs.values()].map(summaryOf)};
  }

  sendState({response, job}) {
    if (job === null) send(response, "jobs", this.list());
    else if (this.jobs.has(job)) send(response, "job", this.jobs.get(job));
  }

  signedIn(request) {
    return this.token !== null && request.headers.authorization === `Bearer ${this.token}`;
  }

  async answer(request, response) {
    const url = new URL(request.url, "http://127.0.0.1");
    let body = "";
    for await (const piece of request) body += piece;
    const routes = {"/": this.page, "/healthz": this.health, "/api/session": this.session, "/api/login": this.login,
                    "/api/logout": this.logout,
                    "/api/events": this.events, "/api/logs": this.log, "/api/stacks": this.stacks,
                    "/api/stop": this.order, "/api/drain": this.order};
    const route = routes[url.pathname];
    if (route === undefined) return reply(response, 404, {error: "there is no such page"});
    return route.call(this, {request, response, url, body: body === "" ? {} : JSON.parse(body)});
  }

  page({response}) {
    const nonce = randomBytes(16).toString("base64");
    response.writeHead(200, {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; ` +
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    });
    response.end(assemblePage(kPage).replaceAll("__NONCE__", nonce));
  }

  health({response}) {
    response.end("ok\n");
  }

  session({request, response}) {
    const signedIn = this.signedIn(request);
    reply(response, 200, {signed_in: signedIn, may_act: signedIn, version: "0.1.0"});
  }

  login({response, body}) {
    if (body.code !== this.code) return this.refuse(response, 403, "this code is not known: it was used, or is older than 60 s");
    this.code = null;
    this.token = randomBytes(8).toString("hex");
    return reply(response, 200, {token: this.token, csrf: "", expires_ms: 43200000});
  }

  logout({request, response}) {
    if (!this.signedIn(request)) return this.refuse(response, 403, "sign in first");
    this.token = null;
    return reply(response, 200, {text: "signed out"});
  }

  events({response, url}) {
    if (this.viewersFull) return reply(response, 503, {error: "256 viewers look at this rendezvous already; try later"});
    const job = url.searchParams.get("job");
    if (job !== null && !this.jobs.has(job)) return reply(response, 404, {error: `there is no job ${job}`});
    const stream = {response, job};
    open(response);
    this.streams.add(stream);
    response.on("close", () => this.streams.delete(stream));
    this.sendState(stream);
    if (job !== null) send(response, "history", this.lines);
    return undefined;
  }

  log({request, response, url}) {
    if (!this.signedIn(request)) return this.refuse(response, 403, "logs are for the job's owner");
    const key = `${url.searchParams.get("rank")}/${url.searchParams.get("stream")}`;
    if (!this.logs.has(key)) return reply(response, 404, {error: "no such rank"});
    open(response);
    this.lastLogQuery = url.searchParams;
    send(response, "text", this.logs.get(key));
    this.lastLog = response;
    return undefined;
  }

  stacks({request, response}) {
    if (!this.signedIn(request)) return this.refuse(response, 403, "stacks are for the job's owner");
    return reply(response, 200, {text: "16 [0-15] main train.py:40", missing: ["n9"]});
  }

  order({request, response, url, body}) {
    if (!this.signedIn(request)) return this.refuse(response, 403, "orders are for the job's owner");
    this.posts.push({path: url.pathname, body});
    return reply(response, 200, {text: `job ${body.job} does it`});
  }

  refuse(response, status, error) {
    this.refusals.push(status);
    reply(response, status, {error});
  }
}

function reply(response, status, json) {
  response.writeHead(status, {"Content-Type": "application/json"});
  response.end(JSON.stringify(json));
}

function open(response) {
  response.writeHead(200, {"Content-Type": "text/event-stream"});
  response.flushHeaders();
}

export function send(response, name, value) {
  response.write(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`);
}
