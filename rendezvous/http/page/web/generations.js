// The generations of a job: a strip over time, and a table with each generation's end and the
// phases of the restart into it.

const kMostGenerations = 50;
// The name of each kind of part.
const kStripParts = {forming: "forming", running: "running", saving: "saving", stopping: "draining, then waiting for the next generation"};

class Generations {
  constructor() {
    this.strip = graphic("svg", {class: "strip", viewBox: "0 0 600 24", preserveAspectRatio: "none", role: "img"});
    this.oldest = element("span", {class: "axis"});
    this.rows = element("tbody", {role: "rowgroup"});
    const columns = ["Generation", "Formed", "Ran for", "Ended because", "Restart took"];
    this.more = element("p", {class: "quiet"});
    const legend = Object.entries(kStripParts).map(([kind, name]) => element("li", {}, element("span", {class: `swatch ${kind}`}), name));
    this.root = section("generations", "Generations", element("ul", {class: "legend"}, ...legend), this.strip,
      element("div", {class: "below"}, this.oldest, element("span", {class: "axis"}, "now")),
      element("table", {role: "table", "aria-labelledby": "generations-title"},
        element("thead", {role: "rowgroup"}, element("tr", {role: "row"},
          ...columns.map((name) => element("th", {role: "columnheader", scope: "col"}, name)))),
        this.rows),
      this.more);
  }

  update(generations, job, elapsed) {
    this.root.hidden = generations.length === 0;
    if (this.root.hidden) return;
    const aged = generations.map((one, i) => laterGeneration(one, generations[i + 1], job, elapsed));
    const newest = [...aged].reverse();
    this.drawStrip(aged, job);
    syncChildren(this.rows, newest.slice(0, kMostGenerations), (one) => one.key,
                 () => this.makeRow(), (row, one) => this.updateRow(row, one, job));
    const leftOut = Math.max(0, newest.length - kMostGenerations);
    this.more.hidden = leftOut === 0;
    setText(this.more, `${count(leftOut, "older generation")} left out.`);
  }

  drawStrip(generations, job) {
    const span = Math.max(1, generations[0].formed_ms_ago ?? 1);
    setText(this.oldest, `${wholeAge(span)} ago`);
    const x = (ago) => 600 * (1 - ago / span);
    const parts = [];
    generations.forEach((one, i) => {
      const end = one.end_ms_ago ?? 0;
      const started = one.started_ms_ago ?? end;
      parts.push({key: `${one.key}f`, kind: "forming", from: x(one.formed_ms_ago), to: x(started), one});
      const saving = one.saving_ms_ago ?? end;
      parts.push({key: `${one.key}r`, kind: "running", from: x(started), to: x(saving), one});
      if (saving > end) parts.push({key: `${one.key}s`, kind: "saving", from: x(saving), to: x(end), one});
      const next = generations[i + 1];
      if (next) parts.push({key: `${one.key}e`, kind: "stopping", from: x(end), to: x(next.formed_ms_ago), one});
    });
    syncChildren(this.strip, parts, (part) => part.key,
      () => graphic("rect", {y: "0", height: "24"}, graphic("title")),
      (rect, part) => {
        setAttribute(rect, "class", part.kind);
        setAttribute(rect, "x", part.from.toFixed(1));
        // A stop of one second in a day must still be visible.
        setAttribute(rect, "width", Math.max(part.kind === "running" ? 0 : 2, part.to - part.from).toFixed(1));
        setText(rect.firstElementChild, `generation ${part.one.generation}: ${kStripParts[part.kind]}`);
      });
    setAttribute(this.strip, "aria-label", `${count(generations.length, "generation")} in ${wholeAge(span)}`);
  }

  makeRow() {
    const bar = graphic("svg", {class: "phases", viewBox: "0 0 120 14", preserveAspectRatio: "none", "aria-hidden": "true"});
    const list = element("ul", {class: "tip"});
    return element("tr", {role: "row"}, element("th", {role: "rowheader", scope: "row"}),
      cell("Formed"), cell("Ran for"), cell("Ended because"),
      cell("Restart took", element("span", {class: "has-tip", tabindex: "0"}, element("span"), bar, list)));
  }

  updateRow(row, one, job) {
    const [name, formed, ran, why, took] = row.children;
    setText(name, String(one.generation));
    setText(formed, `${wholeAge(one.formed_ms_ago)} ago`);
    const started = one.started_ms_ago ?? null;
    setText(ran, started === null ? "did not start" : wholeAge(started - (one.end_ms_ago ?? 0)));
    const reason = printable(one.why ?? "") || (job.redacted ? kAfterSigningIn : "–");
    setText(why, one.end_ms_ago === null ? "it has not ended" : reason);
    this.updatePhases(took.firstElementChild, one);
  }

  updatePhases(holder, one) {
    const [total, bar, list] = holder.children;
    const phases = Object.entries(one.phases_ms ?? {});
    const sum = phases.reduce((all, phase) => all + phase[1], 0);
    const start = one.started_ms_ago ?? null;
    const words = phases.length > 0 ? seconds(sum) : start === null ? "–" : `forming ${seconds(one.formed_ms_ago - start)}`;
    setText(total, words);
    bar.classList.toggle("none", phases.length === 0);
    list.hidden = phases.length === 0;
    let x = 0;
    const parts = phases.map(([phase, ms], i) => {
      const part = {phase, ms, i, x};
      x += (120 * ms) / Math.max(sum, 1e-9);
      return part;
    });
    syncChildren(bar, parts, (part) => part.phase, () => graphic("rect", {y: "0", height: "14"}), (rect, part) => {
      setAttribute(rect, "class", `phase${part.i % 4}`);
      setAttribute(rect, "x", part.x.toFixed(2));
      setAttribute(rect, "width", ((120 * part.ms) / Math.max(sum, 1e-9)).toFixed(2));
    });
    syncChildren(list, parts, (part) => part.phase, () => element("li"),
                 (child, part) => setText(child, `${printable(part.phase)} ${seconds(part.ms)}`));
  }
}

function seconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

// Adds end_ms_ago: how long ago its workers ended; null while they run.
function laterGeneration(one, next, job, ms) {
  const add = (ago) => (ago === null || ago === undefined ? null : ago + ms);
  const end = one.stopping_ms_ago ?? one.ended_ms_ago ?? next?.formed_ms_ago ?? null;
  return {...one, key: `${one.epoch ?? 0}/${one.generation}`, formed_ms_ago: add(one.formed_ms_ago),
          started_ms_ago: add(one.started_ms_ago), saving_ms_ago: add(one.saving_ms_ago),
          end_ms_ago: end === null && job.outcome ? job.since_ms_ago : add(end)};
}
