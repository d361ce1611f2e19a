#!/bin/bash
# Builds and tests a copy of this checkout in a chroot of another Debian release.
# usage: scripts/compat.sh bookworm|trixie|sid|trixie-cuda [--root DIR] [--jobs N] [--quick] [--build]
#        [--packages [--twice]] [CTEST_OPTION...]
#   bookworm, trixie, sid   Debian 12, 13 and unstable. Runs scripts/quickstart.sh, whose job must reach an
#                 accuracy of 0.97, scripts/test.sh CTEST_OPTION..., and scripts/check.sh
#   trixie-cuda   compiles and links the worker library on libtorch 2.6 with CUDA and NCCL, and runs nothing.
#                 Downloads 2.8 GB
#   --root DIR    the folder of the chroot, which the script makes if necessary; build/compat/NAME by default
#   --jobs N      compiler jobs of trixie-cuda, and of sid with --quick; other builds use the CMake presets
#   --quick       runs only the tests worker_base_test and worker_test; on sid it also leaves out quickstart.sh
#   --build       builds, and runs nothing
#   --packages    only builds the Debian packages, and leaves them in DIR/source/build/packages
#   --twice       with --packages: passes --twice to scripts/package.sh
# Needs root, for chroot and mounts, and a Debian machine: it takes mirror, proxies and keys from the apt of
# this machine. If DIR has a chroot, the script uses it again, with everything that was built in it; remove
# DIR for a fresh one. It refuses a DIR with other files, because it empties DIR/source.
# With DDPRUN_TESTS=all a test fails if this machine lacks a capability, as in scripts/test.sh.
# All mounts are in a mount namespace of their own, so none outlives this script, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { # exit code, text
  echo "compat.sh: $2" >&2
  exit "$1"
}
usage() { fail 64 "$1; usage: scripts/compat.sh bookworm|trixie|sid|trixie-cuda [OPTION...], see its head"; }

name=${1:-}
case $name in
  bookworm | trixie | sid) components=main ;;
  trixie-cuda) components="main contrib non-free" ;;
  *) usage "'$name' is none of bookworm, trixie, sid, trixie-cuda" ;;
esac
shift
root=build/compat/$name
jobs=$(nproc)
quick=
build_only=
packages=
twice=
while :; do
  case ${1:-} in
    --root | --jobs)
      [[ -n ${2:-} ]] || usage "$1 needs a value"
      [[ $1 == --root ]] && root=$2 || jobs=$2
      shift
      ;;
    --quick) quick=yes ;;
    --build) build_only=yes ;;
    --packages) packages=yes ;;
    --twice) twice=--twice ;;
    *) break ;;
  esac
  shift
done
[[ $(id -u) == 0 ]] || fail 77 "needs root: it mounts, and changes root to $root"

# ---- the chroot ----
suite=${name%-cuda}
scripts/make_chroot.sh --reuse "$suite" "$root" "$components"
mkdir -p "$root"/{source,build,ccache}
root=$(realpath "$root")

# Copies the present files of the checkout. The build folder of an earlier run stays.
find "$root/source" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard |
  tar --create --file - --null --files-from - --ignore-failed-read |
  tar --extract --file - --directory "$root/source"

# ---- inside ----
# The program that runs in the chroot. Arguments: name, jobs, quick, build_only, packages, twice, CTest's options.
inside=$(cat <<'INSIDE'
set -euo pipefail
name=$1 jobs=$2 quick=$3 build_only=$4 packages=$5 twice=$6
shift 6
cd /source
export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8 CCACHE_DIR=/ccache OMP_NUM_THREADS=1

if [[ -n $packages ]]; then
  exec scripts/package.sh $twice
fi
launcher=
[[ $name == bookworm || $name == trixie || ($name == sid && -z $quick) ]] && launcher=yes
if [[ -n $launcher ]]; then
  scripts/quickstart.sh ${build_only:+--build} | tee /tmp/quickstart
  if [[ -z $build_only ]]; then
    accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\).*/\1/p' /tmp/quickstart | tail -1)
    [[ $accuracy > 0.97 ]] || {
      echo "compat.sh: the main job ended with test accuracy '$accuracy', expected 0.97 or better" >&2
      exit 1
    }
  fi
  if [[ -z $quick && -z $build_only ]]; then
    code=0
    scripts/test.sh "$@" || code=$?
    # check.sh asks git for the list of files. Here this list has all files.
    scripts/install_packages.sh git
    git init --quiet
    scripts/check.sh || code=$?
    exit $code
  fi
fi

# -O1 saves time: these builds mainly show that the code compiles with these headers.
configure=(cmake -S . -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release
  "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" -DDDPRUN_LAUNCHER=OFF)
if [[ $name == trixie-cuda ]]; then
  # Debian's package would download cuDNN from elsewhere, and ask the user to accept a licence. Neither
  # compiling nor linking needs cuDNN. Its symbols stay unresolved, so the programs cannot run here.
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends debconf >/dev/null
  debconf-set-selections <<<'nvidia-cudnn nvidia-cudnn/question select I Decline'
  scripts/install_packages.sh --worker-cuda
  "${configure[@]}" -DDDPRUN_NCCL=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined
  cmake --build /build -j "$jobs"
  # The program must use NCCL: to have it on the link line is not enough.
  symbols=$(nm -C /build/bin/mnist_ddp)
  [[ $symbols == *' U c10d::ProcessGroupNCCL::ProcessGroupNCCL('* ]] || {
    echo "compat.sh: mnist_ddp was built without NCCL" >&2
    exit 1
  }
  echo "compat.sh: the worker library with NCCL is compiled and linked; it was not run"
  exit
fi
build=/build targets=() tests=(-LE python)
if [[ -n $quick ]]; then
  targets=(--target worker_base_test worker_test)
  tests=(-LE 'python|install')
fi
if [[ -n $launcher ]]; then
  # In the folder in which quickstart.sh has built.
  build=build configure=(cmake --preset release -DDDPRUN_TESTS=ON) jobs=2
fi
scripts/install_packages.sh --worker-only --tests
"${configure[@]}"
cmake --build "$build" -j "$jobs" "${targets[@]}" -- -k 0  # every error at once
[[ -z $build_only ]] || exit 0
exec ctest --test-dir "$build" -L worker "${tests[@]}" --no-tests=error --output-on-failure \
  --parallel "$((2 * jobs))" "$@"
INSIDE
)

# The chroot has no git history, so it gets the date of the last commit from here.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export root inside SOURCE_DATE_EPOCH
exec unshare --mount --pid --fork --kill-child bash -c '
  set -euo pipefail
  mount --make-rprivate /
  # The root in there is a mount point, so that mounts can be made private there too.
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  # The compiler cache is the one outside, and so is its limit: a smaller one would empty it.
  environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH")
  for name in DEBFULLNAME DEBEMAIL DDPRUN_TESTS; do
    [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
  done
  cache=$(ccache --get-config cache_dir 2>/dev/null || true)
  if [[ -n $cache && -d $cache ]]; then
    mount --bind "$cache" "$root/ccache"
    environment+=("CCACHE_MAXSIZE=$(ccache --get-config max_size)")
  fi
  rm -f "$root/etc/resolv.conf"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  exec env -i "${environment[@]}" chroot "$root" bash -c "$inside" compat "$@"
' compat "$name" "$jobs" "$quick" "$build_only" "$packages" "$twice" "$@"
