#!/bin/bash
# Checks packaging/ddprun-rendezvous.service and the drop-ins of packaging/ha with systemd's own tools. Every directive
# must be known, and an attacker who controls the service must be able to do little. Needs no running systemd.
# usage: scripts/check_unit.sh [DDPRUN]
set -euo pipefail
cd "$(dirname "$0")/.."
ddprun=$(realpath "${1:-build/bin/ddprun}")

command -v systemd-analyze >/dev/null || scripts/install_packages.sh --no-worker systemd
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed "s|/usr/bin/ddprun|$ddprun|; /^Documentation=/d" packaging/ddprun-rendezvous.service \
  >"$folder/ddprun-rendezvous.service"
verify() { # unit
  local complaints
  # Leaves out what systemd says about other units of this machine.
  complaints=$(systemd-analyze verify --man=no "$folder/$1.service" 2>&1 | grep -F "$1" || true)
  if [[ -n $complaints ]]; then
    echo "check_unit.sh: $complaints" >&2
    exit 1
  fi
}
verify ddprun-rendezvous
# The exposure is a number from 0 to 10. A service without any restriction has 9.6.
systemd-analyze security --offline=true --threshold=20 --no-pager \
  "$folder/ddprun-rendezvous.service" >"$folder/security" || {
  cat "$folder/security" >&2
  echo "check_unit.sh: the exposure is above 2.0" >&2
  exit 1
}
tail -1 "$folder/security"

mkdir "$folder/ddprun-rendezvous.service.d"
sed "s|/usr/bin/ddprun|$ddprun|" packaging/ha/ddprun-rendezvous.conf \
  >"$folder/ddprun-rendezvous.service.d/ha.conf"
verify ddprun-rendezvous

# Debian's unit of etcd exists if the tests' packages are installed.
if [[ -e /lib/systemd/system/etcd.service ]]; then
  cp /lib/systemd/system/etcd.service "$folder"
  mkdir "$folder/etcd.service.d"
  cp packaging/ha/etcd.conf "$folder/etcd.service.d/ddprun.conf"
  verify etcd
fi
