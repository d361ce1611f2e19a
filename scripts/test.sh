#!/bin/bash
# Installs the packages, builds everything, and runs every test.
# usage: scripts/test.sh [PRESET] [CTEST_OPTION...]
#   PRESET   release (default) | dev | debug | asan | tsan | tsan-worker; asan and tsan leave out the C++ library,
#            tsan-worker builds only this library and the tests of its regrouping; all but release treat warnings as
#            errors
# A test for which this machine lacks a capability is skipped, and listed at the end. With DDPRUN_TESTS=all it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
case ${1:-} in
  release | dev | debug | asan | tsan | tsan-worker)
    preset=$1
    shift
    ;;
esac

clang=()
[[ $preset != asan ]] || clang=(clang libclang-rt-dev)
scripts/install_packages.sh --tests "${clang[@]}"
cmake --preset "$preset" -DDDPRUN_TESTS=ON >/dev/null
cmake --build --preset "$preset"

# A sanitizer's finding in any process, also in a background daemon, fails the test that started the process.
export ASAN_OPTIONS=${ASAN_OPTIONS:-exitcode=99:detect_leaks=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-print_suppressions=0 suppressions=$PWD/tests/lsan.supp}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-exitcode=99 suppressions=$PWD/tests/tsan.supp}

folder=build
[[ $preset == release || $preset == dev ]] || folder+=/$preset
logs=$folder/Testing/Temporary

# Most tests wait more than they compute: four at a time keep two cores busy.
rm -f "$logs/LastTestsFailed.log"
code=0
ctest --preset "$preset" --no-tests=error --parallel $((2 * $(nproc))) "$@" || code=$?
left_out=$(awk '/^[0-9]+\/[0-9]+ Testing: / { sub(/^[0-9]+\/[0-9]+ Testing: /, ""); name = $0 }
  /left out, it needs / { sub(/.*left out, it needs /, ""); print "  " name ": " $0 }' "$logs/LastTest.log")
if ((code)) && [[ -s $logs/LastTestsFailed.log ]]; then
  # Most tests start real processes, and a busy machine can starve one. So a failure counts only if it repeats when the
  # test runs alone.
  echo "What failed runs again, one test at a time."
  code=0
  ctest --preset "$preset" --no-tests=error --rerun-failed --parallel 1 --repeat until-pass:2 || code=$?
fi
if [[ -n $left_out ]]; then
  echo "Left out, and what each of them needs:"
  echo "$left_out"
fi
exit $code
