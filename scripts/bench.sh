#!/bin/bash
# Builds, and runs every benchmark of tests/bench; docs/internals/benchmarks.md explains them. If a
# benchmark misses a goal or fails, the others still run, and the exit code is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_packages.sh --tests
cmake --preset release -DDDPRUN_TESTS=ON >/dev/null
cmake --build --preset release

missed=()
bench() {
  echo "== $*"
  "$@" || missed+=("$*")
}
bench tests/bench/launch_bench.py
bench tests/bench/restart_bench.py
bench tests/bench/recovery_bench.py
bench tests/bench/recovery_bench.py --ranks 8
bench tests/bench/ettr_bench.py --gaps 8 --kills 4
bench tests/bench/many_workers_bench.py
bench tests/bench/store_bench.py
bench tests/bench/ddp_bench.py
bench build/bin/session_bench
bench build/bin/verify_bench
bench build/bin/progress_bench
bench tests/bench/stacks_bench.py
bench build/bin/job_machine_bench
bench build/bin/verdict_bench
bench build/bin/http_bench
bench tests/bench/hang_bench.py
bench build/bin/checkpoint_bench
bench build/bin/rendezvous_bench --heartbeats 15
bench build/bin/rendezvous_bench --journal
bench build/bin/rendezvous_bench --etcd --agents 1024 --channels 64
bench tests/bench/failover_bench.py
bench tests/bench/failover_bench.py --agents 4096 --channels 64 --rounds 5 --kinds kill,power
bench build/bin/rendezvous_bench --agents-per-channel 256 --agents 256,16384 --rounds 1
bench build/bin/rendezvous_bench --mtls --agents 1024 --channels 0 --rounds 1
if ((${#missed[@]} > 0)); then
  printf 'bench.sh: a goal was missed by: %s\n' "${missed[@]}" >&2
  exit 1
fi
