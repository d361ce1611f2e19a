#!/bin/bash
# Makes a bare Debian of another release in a folder, with mmdebstrap.
# usage: scripts/make_chroot.sh SUITE FOLDER [COMPONENTS]
#   SUITE        bookworm, trixie, sid
#   FOLDER       must not be there; it appears once it is complete
#   COMPONENTS   main by default
# Needs root and a Debian machine: mirror, proxies and keys are those of its own apt.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=$1 root=$2 components=${3:-main}
command -v mmdebstrap >/dev/null || scripts/install_packages.sh --no-worker mmdebstrap
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
  sed -n 's/^Debian Debian //p' | head -1)
[[ -n $mirror ]] || {
  echo "make_chroot.sh: apt-get indextargets names no mirror of Debian: run apt-get update, or on Debian" >&2
  exit 69
}
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
echo "make_chroot.sh: making $root: $suite ($components) from $mirror"
mmdebstrap --quiet --variant=minbase --components="$components" "${options[@]}" \
  "$suite" "$root.new" "$mirror"
mv "$root.new" "$root"
