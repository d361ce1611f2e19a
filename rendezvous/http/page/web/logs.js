// The output of a rank, live, with search. Keeps a limited number of lines.

const kMostLogLines = 5000;
const kTailLines = 500;
const kDrawEveryMs = 150;

// Pieces of text -> lines. The last line may be incomplete.
class LineBuffer {
  constructor() {
    this.rest = "";
  }

  take(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop().slice(-100000);
    return lines;
  }
}

class Logs {
  constructor(session, job) {
    this.session = session;
    this.job = job;
    this.reading = null;
    this.rank = element("input", {type: "number", min: "0", id: "log-rank", value: "0", required: true});
    this.which = element("input", {type: "number", min: "0", id: "log-generation", placeholder: "newest"});
    this.stream = element("select", {id: "log-stream"}, element("option", {value: "stdout"}, "stdout"),
                          element("option", {value: "stderr"}, "stderr"));
    this.filter = element("input", {type: "search", id: "log-filter", placeholder: "text to find"});
    this.form = element("form", {class: "log-form"},
      labelled("Rank", this.rank), labelled("Generation", this.which), labelled("Stream", this.stream),
      element("button", {type: "submit"}, "Open"), labelled("Find", this.filter));
    this.text = element("pre", {class: "log", tabindex: "0", "aria-label": "Log"});
    this.note = element("p", {class: "quiet", role: "status"});
    this.refusal = element("p", {});
    this.root = section("log", "Log of a rank", this.refusal, this.form, this.note, this.text);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.open();
    });
    this.filter.addEventListener("input", () => this.drawAll());
    this.clear();
  }

  update() {
    this.form.hidden = !this.session.signedIn;
    this.refusal.hidden = this.session.signedIn;
    setText(this.refusal, kSignIn);
  }

  openRank(rank) {
    if (!this.session.signedIn) {
      announce(kSignIn);
      return this.root.scrollIntoView();
    }
    this.rank.value = String(rank);
    this.which.value = "";
    this.open();
    this.root.scrollIntoView({block: "start"});
    this.text.focus({preventScroll: true});
    return undefined;
  }

  clear() {
    this.buffer = new LineBuffer();
    this.lines = [];
    this.fresh = [];
    this.chunks = [];  // {node, lines}: the text on the page
    this.text.replaceChildren();
    this.tail = document.createTextNode("");
    this.text.append(this.tail);
    this.text.hidden = true;
  }

  stop() {
    this.reading?.abort();
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  async open() {
    this.stop();
    this.clear();
    const reading = new AbortController();
    this.reading = reading;
    const generation = this.which.value;
    const what = `${this.stream.value} of rank ${this.rank.value}, ` +
      (generation === "" ? "the newest generation" : `generation ${generation}`);
    const query = new URLSearchParams({job: this.job, rank: this.rank.value, stream: this.stream.value,
                                       tail: kTailLines, follow: 1});
    // Without a generation, the rendezvous continues with the next generation after a restart.
    if (generation !== "") query.set("generation", generation);
    setText(this.note, `Reading ${what}…`);
    let ending = "the rendezvous closed the connection";
    try {
      await readEvents(this.session, `/api/logs?${query}`, reading.signal, (name, value) => {
        if (name === null) setText(this.note, `${capital(what)}, live.`);
        else if (name === "text") this.take(value);
        else if (name === "end") ending = printable(value.text);
      });
    } catch (error) {
      if (reading.signal.aborted) return;
      ending = error.message;
    }
    if (reading.signal.aborted) return;
    this.flush();
    setText(this.note, `${capital(what)}: ${ending}.`.replace(/\.\.$/, "."));
  }

  take(text) {
    for (const line of this.buffer.take(text)) this.fresh.push(printable(lastDrawn(line)));
    this.timer ??= setTimeout(() => this.flush(), kDrawEveryMs);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const lines = this.fresh.slice(-kMostLogLines);
    this.fresh = [];
    this.lines = [...this.lines, ...lines].slice(-kMostLogLines);
    const atEnd = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 40;
    this.append(lines);
    while (this.chunks.length > 1 && this.chunks.reduce((all, one) => all + one.lines, 0) > kMostLogLines) {
      this.chunks.shift().node.remove();
    }
    if (atEnd) this.text.scrollTop = this.text.scrollHeight;
  }

  append(lines) {
    const wanted = this.filter.value.toLowerCase();
    const fits = (line) => wanted === "" || line.toLowerCase().includes(wanted);
    const found = lines.filter(fits);
    if (found.length > 0) {
      const node = document.createTextNode(`${found.join("\n")}\n`);
      this.chunks.push({node, lines: found.length});
      this.text.insertBefore(node, this.tail);
    }
    const rest = printable(lastDrawn(this.buffer.rest));
    this.tail.data = fits(rest) ? rest : "";
    this.text.hidden = this.lines.length === 0 && rest === "";
  }

  // Called when the search text has changed.
  drawAll() {
    for (const chunk of this.chunks) chunk.node.remove();
    this.chunks = [];
    this.append(this.lines);
    const found = this.chunks.reduce((all, one) => all + one.lines, 0);
    announce(this.filter.value === "" ? "" : count(found, "line"));
    this.text.scrollTop = this.text.scrollHeight;
  }
}

const kSignIn = "To read logs, take stacks, stop or drain, sign in: run `ddprun page JOB` and open the link that it prints.";

function labelled(text, field) {
  return element("span", {class: "field"}, element("label", {for: field.id}, text), field);
}
