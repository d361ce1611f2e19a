#!/bin/bash
# Builds the fuzz targets of tests/fuzz with clang, in build/asan, and runs each of them.
# usage: scripts/fuzz.sh [SECONDS] [TARGET...]
#   SECONDS   for each target; 60 by default
#   TARGET    control, http, journal, safetensors, torch_archive, torch_store, wire, yaml; all by default
# Failing inputs are kept in build/fuzz/found, and the exit code is 1. Inputs that reached new code are kept in
# build/fuzz/corpus; the next run begins with them.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || {
  echo "fuzz.sh: SECONDS is '$seconds', expected a number from 1 on" >&2
  exit 64
}
shift || true
targets=("$@")
((${#targets[@]})) || targets=(control http journal safetensors torch_archive torch_store wire yaml)

# The longest input, in bytes. Larger inputs find nothing more, and take longer.
declare -A longest=([control]=8192 [http]=4096 [journal]=8192 [safetensors]=4096 [torch_archive]=4096 [torch_store]=2048 [wire]=16384 [yaml]=4096)
for target in "${targets[@]}"; do
  [[ -n ${longest[$target]:-} ]] || {
    echo "fuzz.sh: no target '$target', expected one of ${!longest[*]}" >&2
    exit 64
  }
done

has_fuzzer() {
  command -v clang++ >/dev/null &&
    compgen -G "$(clang++ -print-resource-dir)/lib/*/libclang_rt.fuzzer-*.a" >/dev/null
}
has_fuzzer || scripts/install_packages.sh --no-worker clang libclang-rt-dev
tests=()
[[ -e build/asan/CMakeCache.txt ]] || tests=(-DDDPRUN_TESTS=OFF)
cmake --preset asan "${tests[@]}" >/dev/null
cmake --build --preset fuzz

# No leak check: a check after each input takes longer than the input. The unit tests under asan check for leaks.
# `timeout` ends a target that hangs: libFuzzer's report of an input that takes all memory may hang if ptrace is not
# allowed.
export ASAN_OPTIONS=detect_leaks=0
failed=0
found=build/fuzz/found
mkdir -p "$found"
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  log=build/fuzz/$target.log
  mkdir -p "$corpus"
  if timeout -k 10 $((seconds + 60)) "build/asan/bin/${target}_fuzz" -max_total_time="$seconds" -max_len="${longest[$target]}" \
    -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$found/$target-" \
    "$corpus" "tests/fuzz/corpus/$target" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "fuzz.sh: $target: $runs inputs in $seconds s, nothing found"
  else
    failed=1
    grep -v '^#[0-9]' "$log" | head -60 >&2
    echo "fuzz.sh: $target: failed; the input lies in $found, all of the output in $log" >&2
  fi
done
exit $failed
