// All jobs. Jobs that need attention come first.

const kListColumns = ["Job", "State", "Nodes", "Step", "Steps/s", "Moved", "Restarts", "Last minutes"];

class ListView {
  constructor() {
    this.path = "/api/events";
    this.rows = element("tbody", {role: "rowgroup"});
    this.summary = element("p", {class: "summary", role: "status"});
    this.none = element("p", {}, "No job is here. One appears when its first node joins.");
    this.table = element("table", {role: "table", class: "jobs", "aria-label": "Jobs"},
      element("thead", {role: "rowgroup"},
              element("tr", {role: "row"},
                      ...kListColumns.map((name) => element("th", {role: "columnheader", scope: "col"}, name)))),
      this.rows);
    this.root = element("div", {}, element("h1", {}, "Jobs"), this.summary, this.table, this.none);
    this.list = null;
  }

  title() {
    const bad = (this.list?.jobs ?? []).filter((job) => moodOf(job) === "bad").length;
    return bad > 0 ? `(${bad}!) ddprun` : "ddprun";
  }

  take(name, value) {
    if (name === "jobs") this.list = value;
  }

  draw(elapsed) {
    if (this.list === null) return;
    const jobs = this.list.jobs.map((job) => later(job, elapsed)).sort(byUrgency);
    this.none.hidden = jobs.length > 0;
    this.table.hidden = jobs.length === 0;
    setText(this.summary, this.summaryOf(jobs));
    syncChildren(this.rows, jobs, (job) => `${job.job}/${job.epoch}`, (job) => this.makeRow(job),
                 (row, job) => this.updateRow(row, job));
  }

  summaryOf(jobs) {
    const bad = jobs.filter((job) => moodOf(job) === "bad");
    const running = jobs.filter((job) => !job.outcome).length;
    const look = bad.length === 0 ? "none needs you" :
      `${bad.length} ${bad.length === 1 ? "needs" : "need"} you: ${bad.slice(0, 3).map((job) => job.job).join(", ")}` +
      (bad.length > 3 ? ` and ${bad.length - 3} more` : "");
    return `${count(jobs.length, "job")}, ${running} not over; ${look}.`;
  }

  makeRow(job) {
    const link = element("a", {href: `#${new URLSearchParams({job: job.job})}`},
                         job.job === "none" ? "(no name)" : printable(job.job));
    return element("tr", {role: "row"},
      element("th", {role: "rowheader", scope: "row"}, link),
      cell("State", element("span", {class: "badge"}), element("span", {class: "why"})),
      cell("Nodes"), cell("Step"), cell("Steps/s"), cell("Moved"), cell("Restarts"),
      cell("Last minutes", makeSparkline()));
  }

  updateRow(row, job) {
    const [, state, nodes, step, speed, move, restarts, spark] = row.children;
    setClass(row, moodOf(job));
    setText(state.children[0], stateWord(job));
    setClass(state.children[0], `badge ${moodOf(job)}`);
    const since = job.outcome ? `${wholeAge(job.since_ms_ago)} ago` : `for ${wholeAge(job.since_ms_ago)}`;
    const why = isHung(job) ? job.progress.hang : job.reason;
    const told = why ? `${since}: ${printable(why)}` : since;
    setText(state.children[1], [told, notJudgedText(job)].filter((part) => part !== "").join("; "));
    setText(nodes, `${number(job.nodes - (job.spares ?? 0))} (${count(job.world_size, "worker")})`);
    setText(step, number(job.step));
    setText(speed, job.outcome ? "–" : rate(job.steps_per_s));
    setText(move, job.progress && !job.outcome ? `${wholeAge(job.progress.still_ms)} ago` : "–");
    setText(restarts, `${number(job.restarts)} of ${number(job.max_restarts)} used`);
    updateSparkline(spark.firstElementChild, job.spark ?? []);
  }
}
