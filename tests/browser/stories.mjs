// Jobs as the rendezvous describes them, for the page to show. Each function makes a new one.

const kTail = [
  "Traceback (most recent call last):",
  "  File \"train.py\", line 88, in step",
  "RuntimeError: CUDA error: an illegal memory access was encountered",
];

export function cause(more = {}) {
  return {
    kind: "worker_failed", description: "rank 9 (local rank 1, pid 4242) on n2: SIGKILL after step 12040", generation: 2,
    host: "n2", node_rank: 1, rank: 9, local_rank: 1, pid: 4242, exit_code: null, signal: "SIGKILL", core_dumped: false,
    oom_killed: false, step: 12040, time: "2026-11-21T03:12:45.125Z", error_kind: "", error: "", stderr_tail: kTail,
    victims: [{host: "n1", node_rank: 0, rank: 0, local_rank: 0, pid: 311, exit_code: 1, signal: null,
               why: "its collective failed after rank 9 had ended"}],
    ...more,
  };
}

export function nodes(many, workers, step) {
  const each = (make) => Array.from({length: many}, (_, i) => make(i));
  return {
    hosts: each((i) => `n${i + 1}`), states: each(() => 0), state_names: ["running", "lost contact: running", "spare", "draining"],
    first_ranks: each((i) => i * workers), workers: each(() => workers), steps: each(() => step),
    heard_ms_ago: each((i) => 100 + (i % 9) * 90),
  };
}

function spark(many, speed) {
  return Array.from({length: many}, (_, i) => [(many - 1 - i) * 5000, speed * (1 + 0.06 * Math.sin(i * 1.7))]);
}

function generations() {
  return [
    {generation: 0, formed_ms_ago: 7980000, started_ms_ago: 7979200, ended_ms_ago: 4200000,
     why: "n3 was lost: its agent was killed; its workers are gone", phases_ms: {}},
    {generation: 1, formed_ms_ago: 4198000, started_ms_ago: 4197400, saving_ms_ago: 990000, ended_ms_ago: 902000,
     why: "rank 3 (local rank 3, pid 377) on n1: exit code 1 after step 9100", phases_ms: {notice: 2, stop: 310, form: 41, start: 420, init: 600, restore: 510, "first step": 115}},
    {generation: 2, formed_ms_ago: 900000, started_ms_ago: 899300, ended_ms_ago: 61000,
     why: "rank 9 (local rank 1, pid 4242) on n2: SIGKILL after step 12040", phases_ms: {notice: 1, stop: 280, form: 38, start: 433, init: 580, restore: 490, "first step": 121}},
    {generation: 3, formed_ms_ago: 60000, started_ms_ago: 59500, ended_ms_ago: null, why: null,
     phases_ms: {notice: 1, stop: 302, form: 40, start: 425, init: 611, restore: 512, "first step": 118}},
  ];
}

// It trains in generation 3, after a worker was killed.
export function running(more = {}) {
  return {
    job: "mnist", epoch: 0, generation: 3, state: "Running", reason: "", since_ms_ago: 59500, min_nodes: 2, max_nodes: 4,
    world_size: 16, restarts: 1, restarts_left: 2, max_restarts: 3, step: 12480, steps_per_s: 8.42, checkpoint: 12000,
    failed_checkpoints: 0, last_failed_checkpoint: null,
    restore: {step: 12040, epoch: 0, generation: 2, tier: "memory", rank: 0, host: "n1"},
    progress: {still_ms: 118, limit_ms: 30000, hang: null}, not_judged: null, straggler_ranks: [], init: null, outcome: null, exit_code: null,
    last_root_cause: cause(), spares: [], nodes: nodes(2, 8, 12480), spark: spark(60, 8.4), generations: generations(),
    checkpoint_ms_ago: 42000, snapshot_ms_ago: 3000, hang_generation: null, hang_stacks: null, ...more,
  };
}

export const kHangSentence = "hangs: rank 5 on n1 (pid 26523) is in no collective: it is in download loader.py:25 since 61.4 s; 15 ranks wait in all_reduce";

// No rank has moved for a minute, and the culprit is known.
export function hung() {
  return running({
    job: "llama-70b", since_ms_ago: 8040000, steps_per_s: 0, progress: {still_ms: 61400, limit_ms: 30000, hang: kHangSentence},
    hang_generation: 3, hang_stacks: [
      "16 <module> train.py:51 → main train.py:40",
      "├ 15 [0-4,6-15] step train.py:45 → Tensor.backward _tensor.py:488 → … → c10d::Reducer::finalize_backward → pthread_cond_wait",
      "└ 1 [5] step train.py:42 → _BaseDataLoaderIter.__next__ dataloader.py:628 → … → download loader.py:25 → poll",
    ].join("\n"),
    spark: spark(60, 8.4).map(([ago, speed]) => [ago, ago < 60000 ? 0 : speed]),
  });
}

// 16,384 nodes of 8 workers: some lost, some waiting, one far behind.
export function large() {
  const columns = nodes(16384, 8, 90210);
  for (const i of [70, 71, 4711, 9000]) columns.states[i] = 1;
  for (let i = 16300; i < 16384; ++i) {
    columns.states[i] = 2;
    columns.first_ranks[i] = null;
    columns.steps[i] = null;
  }
  columns.steps[12000] = 90171;
  return running({job: "exa", min_nodes: 16000, max_nodes: 16300, world_size: 130400, step: 90210, checkpoint: 90000,
                  nodes: columns, spares: columns.hosts.slice(16300), steps_per_s: 1.31, spark: spark(60, 1.3)});
}

export function failed() {
  return running({job: "exp7", generation: 1, state: "Failed", reason: "rank 9 (local rank 1, pid 4242) on n2: SIGKILL after step 12040; no restart is left",
                  since_ms_ago: 300000, restarts: 3, restarts_left: 0, outcome: "failed", exit_code: 137, progress: null});
}

export function gathering() {
  return running({job: "vit-large", generation: -1, state: "Gathering", reason: "waiting for 1 node; here: n4", since_ms_ago: 41000,
                  world_size: 0, restarts: 0, restarts_left: 3, step: null, steps_per_s: null, checkpoint: null, restore: null,
                  progress: null, last_root_cause: null, nodes: nodes(1, 8, null), spark: [], generations: []});
}

// As the list shows a job.
export function summaryOf(job) {
  const {epoch, generation, state, reason, since_ms_ago, world_size, restarts, max_restarts, step, steps_per_s, checkpoint, progress, not_judged, outcome} = job;
  return {job: job.job, epoch, generation, state, reason, since_ms_ago, nodes: job.nodes.hosts.length, spares: job.spares.length, world_size, restarts,
          max_restarts, step, steps_per_s, checkpoint, progress, not_judged, outcome, spark: job.spark.map((point) => point[1])};
}

export function history() {
  const at = (second, event, more) => ({time: `2026-11-21T03:12:${second}Z`, job: "mnist", epoch: 0, generation: 2, event, ...more});
  return [
    at("30.100", "checkpointed", {step: 12000}),
    at("45.125", "failed", {cause: cause()}),
    at("45.130", "restarted", {restarts: 1, reason: "restart 1 of 3"}),
    at("45.400", "formed", {generation: 3, nodes: 2, workers: 16, restore: {step: 12040, tier: "memory", rank: 0, host: "n1"}}),
    at("45.900", "started", {generation: 3, nodes: 2, workers: 16}),
    at("47.300", "resumed", {generation: 3, host: "n2", warm_workers: 0, total_ms: 2009}),
  ];
}
