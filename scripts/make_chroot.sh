#!/bin/bash
# Makes a bare Debian of another release in a folder, with mmdebstrap.
# usage: scripts/make_chroot.sh --anew|--reuse SUITE FOLDER [COMPONENTS]
#   --anew       first removes a chroot that this script made in FOLDER before
#   --reuse      does nothing if FOLDER has a chroot that this script made before
#   SUITE        bookworm, trixie, sid
#   FOLDER       must be empty, or must not exist; the chroot appears there once it is complete
#   COMPONENTS   main by default
# Needs root and a Debian machine: it takes mirror, proxies and keys from the apt of this machine. Marks the chroot with
# a file. It refuses a FOLDER that has files but no such mark, so a mistyped FOLDER loses nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { # exit code, text
  echo "make_chroot.sh: $2" >&2
  exit "$1"
}
mode=${1:-}
[[ $mode =~ ^--(anew|reuse)$ && $# -ge 3 ]] || fail 64 "needs --anew or --reuse, SUITE, FOLDER; see its head"
suite=$2 root=$(realpath -m "$3") components=${4:-main}
mark=.made-by-make_chroot  # its name must not contain ddprun: package_check.sh takes such files for files of the package
if [[ -e $root/$mark ]]; then
  [[ $mode != --reuse ]] || exit 0
  rm -rf "$root"
fi
[[ ! -e $root ]] || rmdir "$root" 2>/dev/null ||
  fail 73 "$root has files, and no $mark, which this script writes: name another folder, or remove this one"

command -v mmdebstrap >/dev/null || scripts/install_packages.sh --no-worker mmdebstrap
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
  sed -n 's/^Debian Debian //p' | head -1)
[[ -n $mirror ]] || fail 69 "apt-get indextargets names no mirror of Debian: run apt-get update, or on Debian"
options=()
while IFS= read -r option; do
  options+=("--aptopt=$option")
done < <(apt-config dump | grep -E '^Acquire::(https?::|Check-Valid-Until|Check-Date|Retries)')
# dpkg need not wait for the disk: after a power failure the chroot is made anew.
options+=('--dpkgopt=force-unsafe-io')
# sid is good enough for a build even if the mirror is not updated any more.
[[ $suite == sid ]] && options+=('--aptopt=Acquire::Check-Valid-Until "false"')
mkdir -p "$(dirname "$root")"
new=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
echo "make_chroot.sh: making $root: $suite ($components) from $mirror"
mmdebstrap --quiet --variant=minbase --components="$components" "${options[@]}" \
  "$suite" "$new" "$mirror"
touch "$new/$mark"
mv --no-target-directory "$new" "$root"
