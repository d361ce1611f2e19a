# How a test in shell ends that cannot run on this machine; tests source it.
# left_out WHAT: names what the test needs. Exits with 77, which CTest counts as skipped, or with DDPRUN_TESTS=all with 1.
left_out() {
  echo "${0##*/}: left out, it needs $1" >&2
  [[ ${DDPRUN_TESTS:-} != all ]] || exit 1
  exit 77
}
