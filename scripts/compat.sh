#!/bin/bash
# Builds worker/ against the libtorch of another Debian, in a chroot, and runs the worker tests there.
# On trixie, Debian 13, ddprun too, and what scripts/quickstart.sh runs.
# usage: scripts/compat.sh trixie|sid|trixie-cuda [--root DIR] [--jobs N] [--quick] [--build] [CTEST_OPTION...]
#   trixie        libtorch 2.6
#   sid           whatever is newest; 2.14 at the time of writing
#   trixie-cuda   libtorch 2.6 with CUDA and NCCL: compiled and linked only. Downloads 2.8 GB
#   --root DIR    where the chroot lies, or is made; build/compat/NAME by default
#   --quick       only worker_test but its long trainings, what needs no libtorch, and the main job
#   --build       builds, and runs nothing
# Needs root, for chroot and mounts, and a Debian machine: mirror, proxies and keys are those of its
# own apt. A chroot that is there is used again; remove DIR for a fresh one. Mounts are made in a
# mount namespace, so that none outlives this script, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { # exit code, text
  echo "compat.sh: $2" >&2
  exit "$1"
}
usage() { fail 64 "$1; usage: scripts/compat.sh trixie|sid|trixie-cuda [OPTION...], see its head"; }

name=${1:-}
case $name in
  trixie | sid) components=main ;;
  trixie-cuda) components="main contrib non-free" ;;
  *) usage "'$name' is none of trixie, sid, trixie-cuda" ;;
esac
shift
root=build/compat/$name
jobs=$(nproc)
quick=
build_only=
while :; do
  case ${1:-} in
    --root | --jobs)
      [[ -n ${2:-} ]] || usage "$1 needs a value"
      [[ $1 == --root ]] && root=$2 || jobs=$2
      shift
      ;;
    --quick) quick=yes ;;
    --build) build_only=yes ;;
    *) break ;;
  esac
  shift
done
[[ $(id -u) == 0 ]] || fail 77 "needs root: it mounts, and changes root to $root"

# ---- the chroot ----
suite=${name%-cuda}
if [[ ! -d $root ]]; then
  command -v mmdebstrap >/dev/null || scripts/install_packages.sh mmdebstrap
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    sed -n 's/^Debian Debian //p' | head -1)
  [[ -n $mirror ]] ||
    fail 69 "apt-get indextargets names no mirror of Debian: run apt-get update, or on Debian"
  options=()
  while IFS= read -r option; do
    options+=("--aptopt=$option")
  done < <(apt-config dump | grep -E '^Acquire::(https?::|Check-Valid-Until|Check-Date|Retries)')
  # dpkg need not wait for the disk: after a power failure the chroot is made anew.
  options+=('--dpkgopt=force-unsafe-io')
  # A mirror that is not updated any more still has a sid that can be built against.
  [[ $suite == sid ]] && options+=('--aptopt=Acquire::Check-Valid-Until "false"')
  mkdir -p "$(dirname "$root")"
  rm -rf "$root.new"
  echo "compat.sh: making $root: $suite ($components) from $mirror"
  mmdebstrap --quiet --variant=minbase --components="$components" "${options[@]}" \
    "$suite" "$root.new" "$mirror"
  mkdir -p "$root.new"/{source,build,ccache}
  mv "$root.new" "$root"
fi
root=$(realpath "$root")

# ---- inside ----
# What runs in it: $1 name, $2 jobs, $3 quick, $4 build_only, then CTest's options.
inside=$(cat <<'INSIDE'
set -euo pipefail
name=$1 jobs=$2 quick=$3 build_only=$4
shift 4
cd /source
export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8 CCACHE_DIR=/ccache OMP_NUM_THREADS=1
# Less optimization: it is the headers that are tried here, and that takes long enough.
configure=(cmake -S . -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release
  "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" -DDDPRUN_LAUNCHER=OFF)
if [[ $name == trixie-cuda ]]; then
  # cuDNN would be downloaded from elsewhere, after a licence was agreed to; neither compiling nor
  # linking needs it. What is in it stays unresolved, and the programs cannot be run here.
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends debconf >/dev/null
  debconf-set-selections <<<'nvidia-cudnn nvidia-cudnn/question select I Decline'
  scripts/install_packages.sh --worker-cuda
  "${configure[@]}" -DDDPRUN_NCCL=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined
  cmake --build /build -j "$jobs"
  # NCCL is in the program, not only on its link line.
  symbols=$(nm -C /build/bin/mnist_ddp)
  [[ $symbols == *' U c10d::ProcessGroupNCCL::ProcessGroupNCCL('* ]] || {
    echo "compat.sh: mnist_ddp was built without NCCL" >&2
    exit 1
  }
  echo "compat.sh: the worker library with NCCL is compiled and linked; it was not run"
  exit
fi
tests=(-L worker) targets=(all)
scripts/install_packages.sh --worker-only --tests
[[ $name == trixie ]] && scripts/install_packages.sh
if [[ -n $quick ]]; then
  tests+=(-R '^([A-Z]|worker_test\.others$)' -LE 'python|install')
  targets=(worker_base_test worker_test mnist_ddp)
elif [[ $name == trixie ]]; then
  scripts/install_packages.sh --worker-only python3 python3-torch
else
  tests+=(-LE python)  # its python3-torch may be of another version, or not there at all
fi
"${configure[@]}"
cmake --build /build -j "$jobs" --target "${targets[@]}" -- -k 0  # every error at once
if [[ $name == trixie ]]; then
  cmake -S . -B /build/launcher -G Ninja "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" \
    -DDDPRUN_WORKER=OFF -DDDPRUN_TESTS=OFF
  cmake --build /build/launcher -j "$jobs" --target ddprun
fi
[[ -z $build_only ]] || exit 0

ctest --test-dir /build "${tests[@]}" --no-tests=error --output-on-failure "$@"
[[ $name == trixie ]] || exit 0

# The main job. Its programs are named by where quickstart.sh builds them.
rm -rf /job
mkdir -p /job/build /job/tests
ln -sfn /build/bin /job/build/bin
cp -r configs /job/
cp -r tests/data /job/tests/
cd /job
/build/launcher/bin/ddprun -c configs/mnist_local.yaml | tee out
accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\).*/\1/p' out | tail -1)
[[ $accuracy > 0.97 ]] || {
  echo "compat.sh: the main job ended with test accuracy '$accuracy', expected 0.97 or better" >&2
  exit 1
}
INSIDE
)

export root inside
exec unshare --mount --pid --fork --kill-child bash -c '
  set -euo pipefail
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --bind . "$root/source"
  mount -o remount,bind,ro "$root/source"
  # The compiler cache is the one outside, and so is its limit: a smaller one would empty it.
  environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin)
  cache=$(ccache --get-config cache_dir 2>/dev/null || true)
  if [[ -n $cache && -d $cache ]]; then
    mount --bind "$cache" "$root/ccache"
    environment+=("CCACHE_MAXSIZE=$(ccache --get-config max_size)")
  fi
  rm -f "$root/etc/resolv.conf"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  exec env -i "${environment[@]}" chroot "$root" bash -c "$inside" compat "$@"
' compat "$name" "$jobs" "$quick" "$build_only" "$@"
