#!/bin/bash
# Runs the TCPStore cases of PyTorch's own test_store.py, with our store in place of torch's master store.
# usage: scripts/torch_store_tests.sh [--torch-server] FILE
#   FILE             test/distributed/test_store.py of PyTorch's sources, of the installed torch's version. It is not
#                    ours, and not in Debian's packages: download it to a place outside this repository
#   --torch-server   runs the cases with torch's own server: shows which cases fail without our store
# Needs a torch (python3, or /usr/bin/python3 with Debian's python3-torch), and build/bin/store_server or the program in
# STORE_SERVER. Prints each case with its result. Exit code 1 if a case fails that is not among the expected
# differences of scripts/torch_store_cases.py, if no case passed, or if our server was never started or ended with an
# error. docs/internals/store.md has the results.
set -euo pipefail
scripts=$(dirname "$(realpath "$0")")

fail() { # exit code, text
  echo "torch_store_tests.sh: $2" >&2
  exit "$1"
}

options=()
if [[ ${1:-} == --torch-server ]]; then
  options=(--torch-server)
  shift
fi
(($# == 1)) || fail 64 "usage: scripts/torch_store_tests.sh [--torch-server] FILE, see its head"
[[ -f $1 ]] || fail 64 "there is no file '$1'"

export STORE_SERVER=${STORE_SERVER:-$scripts/../build/bin/store_server}
[[ -x $STORE_SERVER ]] ||
  fail 1 "no $STORE_SERVER: configure with -DDDPRUN_TESTS=ON, and build the target store_server"
for python in python3 /usr/bin/python3; do
  "$python" -c 'import torch' 2>/dev/null || continue
  "$python" "$scripts/torch_store_cases.py" "${options[@]}" "$1"
  exit
done
fail 1 "no torch in python3 and /usr/bin/python3: scripts/install_packages.sh installs Debian's"
