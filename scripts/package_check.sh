#!/bin/bash
# Tries the Debian packages in a bare Debian: install, train, manual pages, a consumer of the library, an enabled unit,
# upgrade, remove, purge and lintian. After purge nothing may be left. lintian may print no error, and only warnings
# that packaging/README.md explains.
# usage: scripts/package_check.sh [PACKAGES_FOLDER] [--release SUITE] [--root DIR] [--quick] [--launcher-only]
#   PACKAGES_FOLDER   the output folder of scripts/package.sh; build/packages by default
#   --release SUITE   the Debian to try them in: bookworm (default), trixie
#   --root DIR        the folder of the chroot; build/package-check/SUITE by default. The script makes the chroot anew
#                     each time, and refuses a DIR with other files
#   --quick           leaves out lintian and the consumer of the library, which needs a compiler. The time until the
#                     first training step has no limit, because the machine may be busy. Without --quick, it is 3 s
#   --launcher-only   only the package ddprun, with a job of /bin/true: of the packages of another release, only
#                     this one can be installed
# Needs root. Without --launcher-only, prints the seconds from the command to the end of the first training step.
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

scripts/make_chroot.sh --anew "$suite" "$root"
root=$(realpath "$root")
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages/"
cp -r tests/install/outside packaging/README.md "$root/packages/"

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
# Lists all files, except in the folders where apt and dpkg write for every package, in /root and in /tmp.
files() { find / -xdev \( -path /proc -o -path /packages -o -path /var/lib/dpkg -o -path /var/lib/apt \
  -o -path /var/cache -o -path /tmp -o -path /root \) -prune -o -print | sort; }
ours='ddprun|libddp|/ddp(/|\.pc|$)'

# ---- the systemd unit ----
unit=ddprun-rendezvous.service
link=/etc/systemd/system/multi-user.target.wants/$unit
# Makes the folders that systemd makes at the unit's first start, and the files that the rendezvous then writes there.
mkdir -m 700 -p /var/lib/private /var/log/private
write_state() {
  local name=${unit%.service}
  for place in lib log; do
    install -d /var/$place/private/$name
    ln -s private/$name /var/$place/$name
  done
  echo jobs >/var/lib/$name/journal
  echo lines >/var/log/$name/rendezvous.log
}
# Enables the unit as an administrator does. Without systemd, it uses the tool that packages use instead.
enable_unit() {
  if command -v systemctl >/dev/null; then
    systemctl --quiet enable "$unit"
  else
    DPKG_MAINTSCRIPT_PACKAGE=ddprun deb-systemd-helper enable "$unit"
  fi
}
expect_enabled() { [[ -L $link && -e $link ]] || fail "$1: $link does not lead to the unit"; }
# After `apt-get remove`: the unit's links must be gone, and the journal of its jobs must still be there.
expect_removed() {
  local dangling
  dangling=$(find /etc/systemd -lname "*/$unit")
  [[ -z $dangling ]] || fail "removing left $dangling"
  [[ -e /var/lib/${unit%.service}/journal ]] || fail "removing took the journal of the jobs, which purge should take"
}
# $1: the files that were there before.
expect_purged() {
  files | comm -13 "$1" - >/tmp/left
  [[ ! -s /tmp/left ]] || fail "after purge these are left: $(cat /tmp/left)"
}

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
  # Each rank writes a line to a file of its own after each step. The best of three counts: other programs can hold up
  # one.
  step "to the first step"
  for _ in 1 2 3; do
    rm -rf steps first
    mkdir steps
    began=$(date +%s%N)
    ddprun -c "$job" --checkpoint-dir first -- /usr/libexec/ddprun/mnist_ddp --data /usr/share/ddprun/data/mnist \
      --batch-size 32 --max-steps 1 --step-log steps >first.log 2>&1 &
    until [[ -s steps/rank0.log || ! -d /proc/$! ]]; do sleep 0.01; done
    seconds=$(awk "BEGIN { print ($(date +%s%N) - $began) / 1e9 }")
    echo "seconds from the command to the first step: $seconds"
    wait $! || fail "$(cat first.log)"
    in_time=$(awk "BEGIN { print $seconds <= 3 }")
    [[ $in_time != 1 ]] || break
  done
  [[ $in_time == 1 || -n $quick ]] || fail "the first step took $seconds s, expected 3 at most"
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
enable_unit
write_state
expect_enabled "enabled"
files >/tmp/enabled
mkdir /tmp/next
for name in "${names[@]}"; do
  dpkg-deb -R ./${name}_*.deb /tmp/next/$name
  version=$(sed -n 's/^Version: //p' /tmp/next/$name/DEBIAN/control)
  sed -i "s/$version/$version+next/" /tmp/next/$name/DEBIAN/control
  dpkg-deb -Znone --root-owner-group -b /tmp/next/$name /tmp/next/ >/dev/null
done
apt_quietly install /tmp/next/*.deb
[[ $(dpkg-query -W -f '${Version}' ddprun) == *+next ]] || fail "ddprun was not upgraded"
files | diff /tmp/enabled - || fail "the upgrade changed which files are there"
expect_enabled "after an upgrade"

step "remove, purge"
apt_quietly remove "${names[@]}"
expect_removed
apt_quietly purge ddprun  # the other packages have nothing to purge
! dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | grep ddp || fail "dpkg knows these packages after purge"
expect_purged <(grep -vE "$ours" /tmp/installed)

step "remove, install again and purge, where systemd is installed"
apt_quietly install --no-install-recommends systemd
files >/tmp/without
apt_quietly install ./ddprun_*.deb
enable_unit
expect_enabled "enabled by systemctl"
write_state
apt_quietly remove ddprun
expect_removed
apt_quietly install ./ddprun_*.deb
[[ $(systemctl is-enabled "$unit") == disabled ]] || fail "$unit is enabled when the package is installed again"
enable_unit
apt_quietly purge ddprun
expect_purged /tmp/without

if [[ -z $launcher_only && -z $quick ]]; then
  step "lintian"
  apt_quietly install --no-install-recommends lintian
  lintian --allow-root --tag-display-limit 0 --fail-on error ./*.deb >/tmp/lintian || {
    cat /tmp/lintian
    fail "lintian found errors"
  }
  cat /tmp/lintian
  for tag in $(sed -n 's/^W: [^ ]* \([^ ]*\).*/\1/p' /tmp/lintian | sort -u); do
    grep -q "^| \`$tag\` (warning)" README.md || fail "packaging/README.md does not explain lintian's warning $tag"
  done
fi
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
