#!/bin/bash
# From a fresh Debian 12 or 13 to a trained model: installs the packages, builds, and trains a small
# convolutional net on MNIST with two workers under ddprun. Takes a few minutes, most of it the build.
# usage: scripts/quickstart.sh [--build]
#   --build   builds, and trains nothing
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_packages.sh
# Tests need more packages: scripts/test.sh.
cmake --preset release -DDDPRUN_LAUNCHER=ON -DDDPRUN_WORKER=ON -DDDPRUN_TESTS=OFF >/dev/null
cmake --build --preset release --target ddprun mnist_ddp
[[ ${1:-} != --build ]] || exit 0

exec build/bin/ddprun -c configs/mnist_local.yaml
