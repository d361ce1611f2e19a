#!/bin/bash
# Tries the Debian packages in a bare Debian: install, train, manual pages, a consumer of the library, upgrade,
# remove and purge, after which nothing may be left.
# usage: scripts/package_check.sh [PACKAGES_FOLDER] [--release SUITE] [--root DIR] [--launcher-only]
#   PACKAGES_FOLDER   where scripts/package.sh has put them; build/packages by default
#   --release SUITE   the Debian to try them in: bookworm (default), trixie
#   --root DIR        where the chroot is made; build/package-check/SUITE by default. It is made anew each time
#   --quick           without a consumer of the library, for which a compiler is installed, and the first step may
#                     take as long as it wants, as on a busy machine. Otherwise 3 s are the limit
#   --launcher-only   the package ddprun alone, with a job of /bin/true: of another release's packages, only it
#                     fits here
# Needs root. Prints the seconds from the command to the end of the first training step.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "package_check.sh: $1; usage: scripts/package_check.sh [PACKAGES_FOLDER] [OPTION...], see its head" >&2
  exit 64
}
packages=build/packages
suite=bookworm
root=
launcher_only=
quick=
while (($#)); do
  case $1 in
    --release | --root)
      [[ -n ${2:-} ]] || usage "$1 needs a value"
      [[ $1 == --root ]] && root=$2 || suite=$2
      shift
      ;;
    --quick) quick=yes ;;
    --launcher-only) launcher_only=yes ;;
    -*) usage "unknown option $1" ;;
    *) packages=$1 ;;
  esac
  shift
done
root=${root:-build/package-check/$suite}
[[ $(id -u) == 0 ]] || {
  echo "package_check.sh: needs root: it mounts, and changes root to $root" >&2
  exit 77
}
(cd "$packages" && sha256sum --check --quiet SHA256SUMS)

rm -rf "$root"
scripts/make_chroot.sh "$suite" "$root"
root=$(realpath "$root")
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages/"
cp -r tests/install/outside "$root/packages/"

# Runs in the chroot: $1 tells whether to check the launcher alone, $2 whether to be quick.
inside=$(cat <<'INSIDE'
set -euo pipefail
launcher_only=$1 quick=$2
export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8
fail() {
  echo "package_check.sh: $*" >&2
  exit 1
}
step() { printf 'package_check.sh: %s\n' "$*"; }
apt_quietly() { apt-get -y -qq "$@" >/var/log/package_check.log 2>&1 || { cat /var/log/package_check.log; fail "apt-get $*"; }; }
# Our files, and those that apt and dpkg write for every package.
files() { find / -xdev \( -path /proc -o -path /packages -o -path /var/lib/dpkg -o -path /var/lib/apt \
  -o -path /var/cache -o -path /var/log -o -path /tmp -o -path /root \) -prune -o -print | sort; }
ours='ddprun|libddp|/ddp(/|\.pc|$)'

cd /packages
apt-get update -qq
names=(ddprun)
[[ -n $launcher_only ]] || names+=(ddprun-examples)
step "apt-get install ${names[*]}"
apt_quietly install $(printf './%s_*.deb ' "${names[@]}")
ddprun version
[[ -z $(find /etc /run -name '*ddprun*') ]] || fail "the package enables or starts something"

mkdir /tmp/job
cd /tmp/job
if [[ -n $launcher_only ]]; then
  ddprun --nproc-per-node 2 /bin/true
  ddprun validate /usr/share/ddprun/configs/mnist_local.yaml >/dev/null
else
  job=/usr/share/ddprun/configs/mnist_local.yaml
  # Each rank writes a line to a file of its own after each step.
  step "to the first step"
  mkdir steps
  began=$(date +%s%N)
  ddprun -c "$job" --checkpoint-dir first -- /usr/libexec/ddprun/mnist_ddp --data /usr/share/ddprun/data/mnist \
    --batch-size 32 --max-steps 1 --step-log steps >first.log 2>&1 &
  until [[ -s steps/rank0.log || ! -d /proc/$! ]]; do sleep 0.01; done
  seconds=$(awk "BEGIN { print ($(date +%s%N) - $began) / 1e9 }")
  echo "seconds from the command to the first step: $seconds"
  wait $! || fail "$(cat first.log)"
  [[ -n $quick ]] || awk "BEGIN { exit !($seconds <= 3) }" || fail "the first step took $seconds s, expected 3 at most"
  step "ddprun -c $job"
  ddprun -c "$job" 2>&1 | tee job.log | tail -3
  accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\).*/\1/p' job.log | tail -1)
  [[ $accuracy > 0.97 ]] || fail "the job ended with test accuracy '$accuracy', expected 0.97 or better"
fi

step "man ddprun-slurm"
apt_quietly install man-db
[[ $(man ddprun-slurm) == *'ddprun slurm FILE'* ]] || fail "man ddprun-slurm does not render"
for page in $(dpkg -L ddprun | sed -n 's|.*/man./\(.*\)\.[0-9]\.gz|\1|p'); do
  MANWIDTH=80 man --warnings "$page" 2>&1 >/dev/null | grep . && fail "man $page has warnings"
done

cd /packages
if [[ -z $launcher_only ]]; then
  step "libddp-dev and python3-ddprun"
  names+=(libddp-dev python3-ddprun)
  apt_quietly install ./libddp-dev_*.deb ./python3-ddprun_*.deb
  python3 -c 'import ddprun, _ddprun_state; print("import ddprun", ddprun.__version__)'
fi
if [[ -z $launcher_only && -z $quick ]]; then
  step "a consumer of libddp-dev"
  apt_quietly install --no-install-recommends g++ cmake ninja-build pkg-config libopenblas0-pthread
  cmake -S outside -B /tmp/outside -G Ninja >/dev/null
  cmake --build /tmp/outside >/dev/null
  g++ -std=c++17 -o /tmp/outside/by_pkg_config outside/main.cc $(pkg-config --cflags --libs ddp)
  for program in train by_pkg_config; do
    ddprun --log-dir /tmp/logs --nproc-per-node 2 /tmp/outside/$program | sort
  done
fi

step "upgrade"
files >/tmp/installed
mkdir /tmp/next
for name in "${names[@]}"; do
  dpkg-deb -R ./${name}_*.deb /tmp/next/$name
  version=$(sed -n 's/^Version: //p' /tmp/next/$name/DEBIAN/control)
  sed -i "s/$version/$version+next/" /tmp/next/$name/DEBIAN/control
  dpkg-deb -Znone --root-owner-group -b /tmp/next/$name /tmp/next/ >/dev/null
done
apt_quietly install /tmp/next/*.deb
[[ $(dpkg-query -W -f '${Version}' ddprun) == *+next ]] || fail "ddprun was not upgraded"
files | diff /tmp/installed - || fail "the upgrade changed which files are there"

step "remove, purge"
apt_quietly remove "${names[@]}"
! dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | grep -E '^rc .*ddp' ||
  fail "removing left configuration files"
dpkg --purge "${names[@]}" 2>/dev/null  # apt does not know them any more: nothing was left to purge
files | comm -13 <(grep -vE "$ours" /tmp/installed) - >/tmp/left
[[ ! -s /tmp/left ]] || fail "after purge these are left: $(cat /tmp/left)"
step "all of it works, and nothing is left"
INSIDE
)

export root inside
exec unshare --mount --pid --fork --kill-child bash -c '
  set -euo pipefail
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  rm -f "$root/etc/resolv.conf"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" bash -c "$inside" package_check "$@"
' package_check "$launcher_only" "$quick"
