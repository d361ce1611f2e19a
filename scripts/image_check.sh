#!/bin/bash
# Builds the image of packaging/Containerfile with buildah, and tries it: it has at most 40 MiB, the licences, a user
# without privileges, and a job runs in it.
# usage: scripts/image_check.sh [--tarball FILE] [--root DIR]
#   --tarball FILE   the tarball of scripts/package.sh for Debian 12, used in place of the first stage, which compiles
#                    for minutes
#   --root DIR       a bare Debian 12, used as debian:12-slim; build/image-check/bookworm by default. If it does not
#                    exist, scripts/make_chroot.sh makes it
# Needs root, but no registry of images. Leaves no image behind.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { # exit code, text
  echo "image_check.sh: $2" >&2
  exit "$1"
}
tarball=
root=build/image-check/bookworm
while (($#)); do
  [[ $1 == --tarball || $1 == --root ]] && [[ -n ${2:-} ]] ||
    fail 64 "'$1'; usage: scripts/image_check.sh [--tarball FILE] [--root DIR]"
  [[ $1 == --root ]] && root=$2 || tarball=$2
  shift 2
done
[[ $(id -u) == 0 ]] || fail 77 "needs root: it mounts, and changes root"
command -v buildah >/dev/null || scripts/install_packages.sh --no-worker buildah
[[ -d $root ]] || scripts/make_chroot.sh --anew bookworm "$root"

folder=$(mktemp -d)
# buildah mounts images in this folder.
trap 'images umount --all >/dev/null; rm -rf "$folder"' EXIT
images() { buildah --root "$folder/images" --runroot "$folder/run" --storage-driver vfs "$@"; }

base=$(images from scratch)
images add --quiet "$base" "$root" / >/dev/null
images commit --quiet --rm "$base" docker.io/library/debian:12-slim >/dev/null

context=$PWD
containerfile=packaging/Containerfile
if [[ -n $tarball ]]; then
  context=$folder/context
  containerfile=$context/Containerfile
  mkdir -p "$context/program"
  tar --extract --file "$tarball" --strip-components 1 --directory "$context/program"
  {
    printf 'FROM scratch AS program\nCOPY program /program\n'
    sed -n '/ AS files$/,$p' packaging/Containerfile
  } >"$containerfile"
fi
images build --pull-never --isolation chroot --quiet --tag ddprun --file "$containerfile" "$context"

container=$(images from --pull-never localhost/ddprun)
files=$(images mount "$container")
kibibytes=$(du -sk --apparent-size "$files" | cut -f1)
((kibibytes <= 40 * 1024)) || fail 1 "the image has $kibibytes KiB, expected 40 MiB at most"
for file in ddprun/LICENSE ddprun/linked/{SOURCES,ddprun.spdx.json,common-licenses/LGPL-3} libc6/{copyright,SOURCES}; do
  [[ -s $files/usr/share/doc/$file ]] || fail 1 "the image has no /usr/share/doc/$file"
done
said=$(images run --isolation chroot "$container" -- \
  /usr/local/bin/ddprun --nproc-per-node 2 /usr/local/bin/ddprun version 2>&1) || fail 1 "the job has failed: $said"
grep -q '^\[default1\]:ddprun ' <<<"$said" || fail 1 "expected the output of rank 1, found: $said"
owner=$(stat -c %u "$files/home/ddprun/logs")
[[ $owner == 65532 ]] || fail 1 "the job ran as user $owner, expected 65532"
echo "image_check.sh: $kibibytes KiB, licences, user $owner, and a job runs in it"
