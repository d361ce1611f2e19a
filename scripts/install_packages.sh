#!/bin/bash
# Installs the missing packages for building and testing, on Debian 12 or newer.
# usage: scripts/install_packages.sh [--no-worker | --worker-only | --worker-cuda] [--tests] [EXTRA_PACKAGE...]
#   --no-worker     no libtorch: for -DDDPRUN_WORKER=OFF
#   --worker-only   for the worker library and its examples alone: for -DDDPRUN_LAUNCHER=OFF
#   --worker-cuda   the same with Debian's libtorch for CUDA (from trixie on, contrib and non-free)
#   --tests         also the packages that their tests need, and /etc/hosts if it is missing. Some of these packages
#                   start services if systemd runs
set -euo pipefail

build=(g++ cmake ninja-build ccache zlib1g-dev libcli11-dev nlohmann-json3-dev libxxhash-dev)
tests=(libgtest-dev libgmock-dev)
launcher=(libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  libre2-dev libc-ares-dev libssl-dev libzstd-dev libspdlog-dev libfmt-dev libyaml-cpp-dev
  libboost-dev libmunge-dev libdw-dev libelf-dev liblzma-dev libbz2-dev)
launcher_tests=(munge systemd python3 python3-torch iproute2 nftables zsh slurmctld slurmd
  slurm-client shellcheck prometheus tmux mandoc groff-base etcd-server etcd-client procps openssl
  e2fsprogs bsdextrautils)
# libtorch uses the installed BLAS: without OpenBLAS a training step takes eight times as long.
worker=(libtorch-dev libgloo-dev libopenblas0-pthread)
worker_cuda=(libtorch-cuda-dev libgloo-cuda-dev libopenblas0-pthread libnccl-dev
  nvidia-cuda-toolkit nvidia-cuda-dev)

wanted=("${build[@]}")
parts=${1:-}
case $parts in
  --no-worker)
    shift
    wanted+=("${launcher[@]}")
    ;;
  --worker-only)
    shift
    wanted+=("${worker[@]}")
    ;;
  --worker-cuda)
    shift
    wanted+=("${worker_cuda[@]}")
    ;;
  *) wanted+=("${launcher[@]}" "${worker[@]}") ;;
esac
tested=0
if [[ ${1:-} == --tests ]]; then
  shift
  tested=1
  wanted+=("${tests[@]}")
  [[ $parts == --worker-* ]] || wanted+=("${launcher_tests[@]}")
fi
wanted+=("$@")

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done

as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo)
# A bare chroot has no hosts file. Without it torchrun cannot resolve this machine's name, and Slurm's tests have no
# file to which they can add their nodes.
if ((tested)) && [[ ! -e /etc/hosts ]]; then
  printf '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n' "$(uname -n)" |
    "${as_root[@]}" tee /etc/hosts >/dev/null
fi
((${#missing[@]})) || exit 0
if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
  echo "install_packages.sh: not root and no sudo; as root: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
