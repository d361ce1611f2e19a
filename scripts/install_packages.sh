#!/bin/bash
# Installs what building and testing need, on Debian 12 or newer. Does nothing where it is all there.
# usage: scripts/install_packages.sh [--no-worker] [EXTRA_PACKAGE...]
set -euo pipefail

build=(g++ cmake ninja-build ccache
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev libre2-dev
  libc-ares-dev libssl-dev zlib1g-dev libspdlog-dev libfmt-dev libcli11-dev libyaml-cpp-dev
  nlohmann-json3-dev libxxhash-dev libmunge-dev)
tests=(munge systemd libgtest-dev libgmock-dev libbenchmark-dev python3 python3-torch
  iproute2 nftables)
# libtorch takes whatever BLAS is there: without OpenBLAS a training step takes eight times as long.
worker=(libtorch-dev libgloo-dev libopenblas0-pthread)

wanted=("${build[@]}" "${tests[@]}")
if [[ ${1:-} == --no-worker ]]; then
  shift
else
  wanted+=("${worker[@]}")
fi
wanted+=("$@")

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || {
    echo "install_packages.sh: not root and no sudo; as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
