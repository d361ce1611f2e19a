// The first answers about a job: its state, the reason, and what happens next. From the JSON of a
// job.

// "bad": needs attention. "busy": in transition. "good": trains. "over": ended well.
function moodOf(job) {
  if (job.outcome === "succeeded" || job.outcome === "left") return "over";
  if (job.outcome === "preempted") return "busy";
  if (job.outcome !== null && job.outcome !== undefined) return "bad";
  if (isHung(job)) return "bad";
  if (job.state === "Running" || job.state === "Saving") return isStill(job) ? "busy" : "good";
  return "busy";
}

function isHung(job) {
  return Boolean(job.progress && job.progress.hang) && !job.outcome;
}

// True: half of the hang limit has passed.
function isStill(job) {
  const progress = job.progress;
  return Boolean(progress && progress.limit_ms && progress.still_ms > progress.limit_ms / 2);
}

function stateWord(job) {
  if (job.outcome) return outcomeText(job.outcome);
  return isHung(job) ? "Hung" : job.state;
}

// Jobs that need attention come first.
function urgency(job) {
  if (isHung(job)) return 0;
  if (moodOf(job) === "bad") return 1;
  if (job.outcome) return 4;
  return moodOf(job) === "busy" ? 2 : 3;
}

function byUrgency(a, b) {
  const difference = urgency(a) - urgency(b);
  if (difference !== 0) return difference;
  if (a.outcome && b.outcome) return a.since_ms_ago - b.since_ms_ago;
  return a.job < b.job ? -1 : a.job > b.job ? 1 : 0;
}

function progressText(job) {
  const progress = job.progress;
  if (!progress || job.outcome) return "";
  const limit = progress.limit_ms ? ` (limit ${wholeAge(progress.limit_ms)})` : "";
  return `a rank moved ${wholeAge(progress.still_ms)} ago${limit}`;
}

// Now: the state, since when, and the reason for waiting.
function nowText(job) {
  const since = job.outcome ? `${wholeAge(job.since_ms_ago)} ago` : `for ${wholeAge(job.since_ms_ago)}`;
  const code = job.outcome && job.exit_code !== null ? `, exit code ${job.exit_code}` : "";
  const parts = [`${since}${code}; generation ${job.generation}`];
  if (job.reason) parts.push(printable(job.reason));
  if (job.init) parts.push(printable(job.init.text));
  if (progressText(job)) parts.push(progressText(job));
  if (notJudgedText(job)) parts.push(notJudgedText(job));
  return parts.join("; ");
}

// Whether hangs are not detected, and why. Without a session the reason is not sent.
function notJudgedText(job) {
  if (!job.not_judged || job.outcome) return "";
  return `hangs are not noticed: ${printable(job.not_judged.why) || kAfterSigningIn}`;
}

const kAfterSigningIn = "shown after signing in";

// The root cause: of the present hang, else of the last failure.
function causeText(job) {
  if (isHung(job)) return `the job ${printable(job.progress.hang)}`;
  const cause = job.last_root_cause;
  if (!cause) return job.redacted && (job.generation > 0 || job.outcome) ? kAfterSigningIn : "nothing has failed";
  const when = cause.time ? ` at ${clock(cause.time)}` : "";
  return `in generation ${cause.generation}${when}: ${printable(cause.description)}`;
}

function restartsText(job) {
  if (job.restarts_left <= 0) return "no restart is left: the next failure ends the job";
  return `${number(job.restarts)} of ${count(job.max_restarts, "restart")} used, ${number(job.restarts_left)} left`;
}

const kNext = {
  Gathering: "it starts by itself as soon as enough nodes are here",
  LastCall: "enough nodes are here: it starts after a short wait for more",
  Forming: "its workers start as soon as every node is ready",
  Saving: "all ranks save at one common step; then its workers are ended",
  Draining: "its workers are being ended",
  Backoff: "it restarts by itself after a pause",
};

function nextText(job) {
  if (job.outcome === "succeeded") return "nothing: it is done";
  if (job.outcome === "preempted") return "start the same command again: it goes on from its checkpoint";
  if (job.outcome) return "it does not restart by itself: start the same command again";
  if (isHung(job)) {
    return `it goes on by itself if a rank moves, or is restarted where --on-hang says so; ${restartsText(job)}`;
  }
  if (job.state === "Running") {
    const still = isStill(job) ? `it counts as a hang in ${wholeAge(job.progress.limit_ms - job.progress.still_ms)}; ` : "";
    return `${still}it goes on; ${restartsText(job)}`;
  }
  return `${kNext[job.state] ?? "it goes on by itself"}; ${restartsText(job)}`;
}

// The job as it would be `ms` later: ages grow while no message comes.
function later(job, ms) {
  if (ms <= 0 || !job) return job;
  const aged = {...job, since_ms_ago: job.since_ms_ago + ms};
  for (const name of ["checkpoint_ms_ago", "snapshot_ms_ago", "without_checkpoint_ms"]) {
    if (Number.isFinite(job[name])) aged[name] = job[name] + ms;
  }
  if (job.progress) aged.progress = {...job.progress, still_ms: job.progress.still_ms + ms};
  return aged;
}
