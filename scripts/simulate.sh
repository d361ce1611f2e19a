#!/bin/bash
# Runs the campaign of simulated jobs: scripts/simulate.sh [RUNS [FIRST_SEED]]
# By default makes 100,000 runs with one rendezvous, and then 100,000 with several over etcd, from seed 0, on all cores.
# Then makes the runs with planted bugs, which the checker must find. Prints each seed that fails, with the command that
# replays it.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-100000}
first=${2:-0}

[[ -f build/build.ninja ]] || cmake --preset release >/dev/null
cmake --build --preset release --target simulate >/dev/null

cores=$(nproc)
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
failed=0
campaign() {  # WORDS [FLAG...]
  local words=$1 began core from to pid pids=()
  shift
  began=$(date +%s.%N)
  for ((core = 0; core < cores; ++core)); do
    from=$((first + runs * core / cores))
    to=$((first + runs * (core + 1) / cores))
    build/bin/simulate --seeds "$from:$to" "$@" >"$outputs/$core" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  cat "$outputs"/*
  echo "simulate.sh: $runs runs with $words in $(awk "BEGIN { print $(date +%s.%N) - $began }") s" \
    "on $cores cores"
}
campaign "one rendezvous"
campaign "several rendezvous" --etcd 1

for bug in no_agent_id_check lease_from_ack_arrival ranks_before_lease timeline_forgotten \
    nobody_looks_again stuck_forgotten left_too_early old_survivor_joins two_sources \
    half_step_as_source slot_of_another_step left_before_its_snapshot \
    ack_after_validity no_hold term_not_checked unguarded_write two_leaders_from_one_revision \
    stale_renewal delayed_duplicate vmax_forgotten no_hold_after_restore; do
  build/bin/simulate --seeds "$first:$((first + 24000))" --bug "$bug" >"$outputs/bug" || failed=1
  grep -E '^(seed|bug)' "$outputs/bug"
done
((failed)) && echo "simulate.sh: FAILED" || echo "simulate.sh: everything held, every bug was found"
exit $failed
