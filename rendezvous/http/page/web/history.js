// The events, newest first, updated live.

const kMostEvents = 1000;
const kEventsShown = 100;

// An event as a sentence.
function eventText(line) {
  const parts = [];
  if (line.host) parts.push(line.host);
  if (line.nodes) parts.push(`${count(line.nodes, "node")}, ${count(line.workers ?? 0, "worker")}`);
  if (line.step !== undefined) parts.push(`step ${number(line.step)}`);
  if (line.restore) parts.push(line.restore.tier === "none" ? "from the beginning" : `from step ${number(line.restore.step)} (${tierText(line.restore.tier)})`);
  if (line.restarts !== undefined) parts.push(`restart ${line.restarts}`);
  if (line.total_ms !== undefined) parts.push(`after ${seconds(line.total_ms)}`);
  if (line.outcome) parts.push(`${outcomeText(line.outcome)}, exit code ${line.exit_code}`);
  if (line.cause) parts.push(line.cause.description);
  else if (line.reason) parts.push(line.reason);
  return printable(parts.join("; "));
}

const kLoudEvents = new Set(["failed", "lost", "fenced", "hung", "stuck", "checkpoint_failed", "checkpoint_damaged"]);

class History {
  constructor() {
    this.lines = [];
    this.next = 0;
    this.shown = kEventsShown;
    this.filter = element("input", {type: "search", id: "event-filter", placeholder: "event, node or text"});
    this.list = element("ol", {class: "events", reversed: true});
    this.more = element("button", {type: "button", class: "small"}, "Show more");
    this.root = section("events", "What has happened",
      element("p", {}, element("label", {for: "event-filter"}, "Show only"), " ", this.filter), this.list, this.more);
    this.filter.addEventListener("input", () => this.draw());
    this.more.addEventListener("click", () => {
      this.shown += kEventsShown;
      this.draw();
    });
  }

  replace(lines) {
    this.lines = [];
    lines.slice(-kMostEvents).forEach((line) => this.keep(line));
    this.draw();
  }

  add(line) {
    this.keep(line);
    this.draw();
  }

  keep(line) {
    this.lines.push({key: this.next++, line, text: eventText(line)});
    if (this.lines.length > kMostEvents) this.lines.shift();
  }

  draw() {
    this.root.hidden = this.lines.length === 0;
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.lines.filter((one) => wanted === "" || `${one.line.event} ${one.text}`.toLowerCase().includes(wanted));
    const newest = found.slice(-this.shown).reverse();
    this.more.hidden = found.length <= this.shown;
    syncChildren(this.list, newest, (one) => one.key, (one) => this.makeLine(one), () => {});
  }

  makeLine({line, text}) {
    const loud = kLoudEvents.has(line.event) ? " loud" : "";
    return element("li", {class: `event${loud}`},
      element("time", {datetime: line.time ?? "", title: line.time ?? ""}, clock(line.time)), " ",
      element("span", {class: "generation", title: "generation"}, `g${line.generation}`), " ",
      element("strong", {}, printable(line.event ?? "?")), " ", text);
  }
}

// The stacks of all ranks: of the last hang, and on demand.
class Stacks {
  constructor(session, job) {
    this.session = session;
    this.job = job;
    this.text = element("pre", {tabindex: "0", "aria-label": "Stack tree"});
    this.note = element("p", {class: "quiet", role: "status"});
    this.take = element("button", {type: "button", onclick: () => this.ask()}, "Take the stacks now");
    this.root = section("stacks", "Stacks", element("p", {}, this.take), this.note, this.text);
    this.own = false;
    this.hang = "";
  }

  update(job) {
    this.take.hidden = !this.session.signedIn || Boolean(job.outcome);
    const hang = job.hang_stacks ? printable(job.hang_stacks) : "";
    // A new hang replaces stacks that were requested.
    if (hang !== "" && hang !== this.hang) this.own = false;
    this.hang = hang;
    if (!this.own) {
      setText(this.text, hang);
      setText(this.note, hang === "" ? "" : `Stacks of the hang in generation ${job.hang_generation}, taken when the hang was noticed.`);
    }
    this.text.hidden = this.text.textContent === "";
    this.root.hidden = this.text.hidden && this.take.hidden;
  }

  async ask() {
    this.take.disabled = true;
    setText(this.note, "Asking every node…");
    try {
      const answer = await this.session.get(`/api/stacks?${new URLSearchParams({job: this.job})}`);
      this.own = true;
      const missing = answer.missing ?? [];
      setText(this.text, printable(answer.text));
      setText(this.note, `Taken at ${new Date().toLocaleTimeString("en-GB")}.` +
        (missing.length > 0 ? ` No answer in time from ${printable(missing.join(", "))}.` : ""));
    } catch (error) {
      setText(this.note, `${capital(error.message)}.`);
    }
    this.text.hidden = this.text.textContent === "";
    this.take.disabled = false;
  }
}
