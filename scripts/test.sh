#!/bin/bash
# Installs the packages, builds everything, and runs every test.
# usage: scripts/test.sh [PRESET] [CTEST_OPTION...]
#   PRESET   release (default) | debug | asan | tsan; the last two build agent and rendezvous only
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
case ${1:-} in
  release | debug | asan | tsan)
    preset=$1
    shift
    ;;
esac

scripts/install_packages.sh
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset"

# What a sanitizer finds in any process, a daemon in the background too, fails the test that runs it.
export ASAN_OPTIONS=${ASAN_OPTIONS:-exitcode=99:detect_leaks=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-print_suppressions=0 suppressions=$PWD/tests/lsan.supp}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-exitcode=99 suppressions=$PWD/tests/tsan.supp}

folder=build
[[ $preset == release ]] || folder+=/$preset
failed=$folder/Testing/Temporary/LastTestsFailed.log
rm -f "$failed"
ctest --preset "$preset" --no-tests=error --parallel 2 "$@" && exit
[[ -s $failed ]] || exit 1
# Most tests start real processes, and a machine that does other work can starve one: a failure counts
# when it repeats with nothing beside it.
echo "What failed runs again, one test at a time."
exec ctest --preset "$preset" --no-tests=error --rerun-failed --parallel 1 --repeat until-pass:2
