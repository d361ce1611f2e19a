// The top of a job's page: its state, the cause, and what happens next; then its figures.

class Headline {
  constructor(job) {
    this.badge = element("span", {class: "badge"});
    this.now = element("dd");
    this.cause = element("dd");
    this.next = element("dd");
    this.figures = element("dl", {class: "figures"});
    this.said = null;
    this.root = element("div", {class: "headline"},
      element("h1", {}, this.badge, " ", capital(printable(nameOf(job)))),
      element("dl", {class: "story"},
              element("div", {}, element("dt", {}, "Now"), this.now),
              element("div", {}, element("dt", {}, "Root cause"), this.cause),
              element("div", {}, element("dt", {}, "Next"), this.next)),
      this.figures);
  }

  update(job) {
    setText(this.badge, stateWord(job));
    setClass(this.badge, `badge ${moodOf(job)}`);
    setClass(this.root, `headline ${moodOf(job)}`);
    setText(this.now, nowText(job));
    setText(this.cause, causeText(job));
    setText(this.next, nextText(job));
    this.say(job);
    syncChildren(this.figures, this.figuresOf(job), (figure) => figure[0],
      ([name]) => element("div", {}, element("dt", {}, name), element("dd")),
      (child, [, value]) => setText(child.lastElementChild, value));
  }

  // Only fields that change the story, not the ages.
  say(job) {
    const key = `${stateWord(job)} ${job.generation}`;
    if (this.said !== null && this.said !== key) {
      announce(`${capital(nameOf(job.job))}: ${stateWord(job)}, generation ${job.generation}. ${causeText(job)}`);
    }
    this.said = key;
  }

  figuresOf(job) {
    const hosts = job.nodes?.hosts?.length ?? 0;
    const spares = job.spares?.length ?? 0;
    const range = job.min_nodes === job.max_nodes ? number(job.max_nodes) : `${job.min_nodes}:${job.max_nodes}`;
    const figures = [
      ["Nodes", `${number(hosts - spares)} of ${range}${spares > 0 ? ` and ${count(spares, "spare")}` : ""}`],
      ["Workers", number(job.world_size)],
      ["Step", number(job.step)],
      ["Steps/s", job.outcome ? "–" : rate(rateOf(job))],
      ["Checkpoint", this.checkpointOf(job)],
      ...(Number.isFinite(job.snapshot_ms_ago) ? [["Snapshot in memory", `${wholeAge(job.snapshot_ms_ago)} ago`]] : []),
      ["Restarts", `${number(job.restarts)} of ${number(job.max_restarts)} used, ${number(job.restarts_left)} left`],
    ];
    if (job.restore && job.restore.tier !== "none") {
      const by = job.restore.host ? ` sent by ${printable(job.restore.host)}` : "";
      figures.push(["Resumed from", `step ${number(job.restore.step)}, ${tierText(job.restore.tier)}${by}`]);
    }
    if (job.failed_checkpoints > 0) {
      const last = job.last_failed_checkpoint;
      const where = last ? `; the last at step ${number(last.step)} on ${printable(last.host ?? "?")}: ${printable(last.reason ?? "")}` : "";
      figures.push(["Checkpoints failed", `${number(job.failed_checkpoints)}${where}`]);
    }
    return figures;
  }

  checkpointOf(job) {
    if (job.checkpoint === null || job.checkpoint === undefined) {
      return Number.isFinite(job.without_checkpoint_ms) ? `none in ${wholeAge(job.without_checkpoint_ms)}` : "none";
    }
    const ago = job.step > job.checkpoint ? [`${count(job.step - job.checkpoint, "step")} ago`] : [];
    if (Number.isFinite(job.checkpoint_ms_ago)) ago.push(`${wholeAge(job.checkpoint_ms_ago)} ago`);
    return `step ${number(job.checkpoint)}${ago.length > 0 ? ` (${ago.join(", ")})` : ""}`;
  }
}

function rateOf(job) {
  if (job.steps_per_s !== undefined) return job.steps_per_s;
  const points = job.spark ?? [];
  return points.length > 0 ? points[points.length - 1][1] : null;
}

// The root cause with its last lines of output; its victims are listed apart.
class CausePanel {
  constructor() {
    this.facts = element("p");
    this.tail = element("pre", {tabindex: "0", "aria-label": "Last lines of stderr"});
    this.victims = element("ul");
    this.more = element("details", {}, element("summary"), this.victims);
    this.root = section("cause", "Root cause", this.facts, this.tail, this.more);
  }

  update(job) {
    const cause = job.last_root_cause;
    this.root.hidden = !cause;
    if (!cause) return;
    setText(this.facts, this.factsOf(cause));
    const tail = (cause.stderr_tail ?? []).map((line) => printable(lastDrawn(line)));
    this.tail.hidden = tail.length === 0;
    setText(this.tail, tail.join("\n"));
    const victims = cause.victims ?? [];
    this.more.hidden = victims.length === 0;
    setText(this.more.firstElementChild, `${count(victims.length, "other worker")} failed because of the root cause`);
    syncChildren(this.victims, victims.slice(0, 50), (victim) => victim.rank, () => element("li"),
      (child, victim) => setText(child, printable(
        `rank ${victim.rank}${victim.host ? ` on ${victim.host}` : ""}: ${victim.signal ?? `exit code ${victim.exit_code}`}; ${victim.why}`)));
  }

  factsOf(cause) {
    const parts = [`in generation ${cause.generation}: ${printable(cause.description)}`];
    if (cause.phase) parts.push(`in phase ${printable(cause.phase)}, has not moved for ${wholeAge(cause.still_s * 1000)}`);
    if (cause.oom_killed) parts.push("the kernel killed it because memory ran out");
    if (cause.error) parts.push(printable(cause.error));
    if (cause.reason && !cause.description.includes(cause.reason)) parts.push(printable(cause.reason));
    return parts.join("; ");
  }
}
