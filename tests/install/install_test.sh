#!/bin/bash
# Installs this build, moves the installation, builds outside/ against it with find_package(ddprun), and runs the
# program. The program runs alone and, if ddprun is part of this build, with two ranks under the installed ddprun.
# usage: install_test.sh BUILD_DIR WORK_DIR CMAKE CXX_COMPILER [CMAKE_OPTION...]
#   WORK_DIR   is removed and made anew
set -euo pipefail
build=$1 work=$2 cmake=$3 compiler=$4
shift 4
here=$(realpath "$(dirname "$0")")
source_tree=$(realpath "$here/../..")

fail() {
  echo "install_test.sh: $*" >&2
  exit 1
}

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log"
prefix=$work/moved
mv "$work/first" "$prefix"

files=(include/ddp/ddp.h lib/pkgconfig/ddp.pc share/doc/ddprun/LICENSE share/doc/ddprun/worker-library.md
  libexec/ddprun/mnist_ddp share/ddprun/data/mnist/train-images-idx3-ubyte.gz)
launcher=$prefix/bin/ddprun
if [[ -e $build/bin/ddprun ]]; then
  files+=(bin/ddprun share/bash-completion/completions/ddprun share/zsh/site-functions/_ddprun
    share/ddprun/configs/ddprun.schema.json lib/systemd/system/ddprun-rendezvous.service
    share/man/man1/ddprun-slurm.1.gz share/man/man5/ddprun.yaml.5.gz share/man/man7/ddprun-worker.7.gz
    lib/python3/dist-packages/ddprun.py share/ddprun/ddprun-rendezvous.logrotate share/ddprun/ha/etcd.default
    share/ddprun/ha/etcd.conf share/ddprun/prometheus/alerts.yml share/ddprun/grafana/ddprun.json)
  diff <(ls "$build/manuals") <(find "$prefix/share/man" -type f -printf '%f\n' | sort) ||
    fail "the manual pages that were made (<) differ from the installed ones (>)"
fi
for file in "${files[@]}"; do
  [[ -s $prefix/$file ]] || fail "$file is not installed"
done
# Nothing that was installed leads back to this tree, which a user may not have. Here what job files
# name, the folder of the first installation, is a part of it.
for file in $(find "$prefix" -name '*.cmake' -o -name '*.pc' -o -path '*/ddprun/configs/*.yaml'); do
  ! sed "s|$work/first/||g" "$file" | grep -nF -e "$source_tree/" -e "$(realpath "$build")" ||
    fail "$file names the source tree"
done

# Links of the installed pages lead to installed files.
for page in $(find "$prefix/share/doc/ddprun" -name '*.md'); do
  for target in $(grep -oP '\]\(\K[^)#:\s]+(?=[)#])' "$page"); do
    [[ -e $(dirname "$page")/$target ]] || fail "$page links to $target, which is not installed"
  done
done

# Job files name programs and data where they were installed first.
job=$prefix/share/ddprun/configs/mnist_local.yaml
[[ ! -e $launcher ]] || grep -q "command: \[$work/first/libexec/ddprun/mnist_ddp, --data, $work/first/share/ddprun/" "$job" ||
  fail "$job does not name the installed trainer and its data"
unit_addition=$prefix/share/ddprun/ha/ddprun-rendezvous.conf
[[ ! -e $launcher ]] || grep -qx "ExecStart=$work/first/bin/ddprun rendezvous .*" "$unit_addition" ||
  fail "$unit_addition does not name the installed program"

"$cmake" -S "$here/outside" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" "$@" >"$work/configure.log" ||
  fail "outside/ cannot be configured, see $work/configure.log"
"$cmake" --build "$work/build" >"$work/build.log" || fail "outside/ cannot be built: $(cat "$work/build.log")"

# What rank 0 learned is what rank 1 learned, to the last digit, and is 3.
check() { # ranks, output
  local ranks=$1 output=$2
  local weights
  weights=$(sed -n "s/.*rank [0-9]* of $ranks: //p" <<<"$output")
  [[ $(wc -l <<<"$weights") == "$ranks" ]] || fail "expected $ranks lines, found: $output"
  [[ $(sort -u <<<"$weights" | wc -l) == 1 ]] || fail "the ranks differ: $output"
  awk '{ exit !($1 > 2.9 && $1 < 3.1) }' <<<"$weights" || fail "expected 3, found: $output"
}
cd "$work"
check 1 "$(timeout 60 build/train 2>&1)"
if [[ -e $launcher ]]; then
  check 2 "$(timeout 60 "$launcher" --nproc-per-node 2 "$work/build/train" 2>&1)"
fi
echo "install_test.sh: an outside project was built against $prefix and trained"
