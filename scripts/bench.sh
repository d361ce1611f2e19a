#!/bin/bash
# Installs, builds and runs every benchmark of tests/bench; docs/benchmarks.md explains them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_packages.sh python3-torch
cmake --preset release >/dev/null
cmake --build --preset release

tests/bench/launch_bench.py
tests/bench/restart_bench.py
tests/bench/recovery_bench.py
tests/bench/many_workers_bench.py
tests/bench/ddp_bench.py
for bench in build/bin/*_bench; do
  [[ -x $bench ]] && "$bench"
done
