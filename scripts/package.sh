#!/bin/bash
# Builds the Debian packages of this checkout for the Debian it runs on, and a tarball of the one-file ddprun.
# usage: scripts/package.sh [OUTPUT_FOLDER] [--twice] [--release SUITE [--root DIR]]
#   OUTPUT_FOLDER   build/packages by default; with --release, /var/tmp/ddprun/packages/SUITE. The script replaces the
#                   files that it wrote there before: ddprun's packages, tarball and SPDX document, and SHA256SUMS.
#                   Other files stay
#   --twice         builds a second time, in an empty build folder at the same place and without the compiler cache,
#                   and compares every byte. Needs root
#   --release SUITE   builds the packages of another Debian (bookworm, trixie), in a chroot of scripts/compat.sh
#   --root DIR        the folder of this chroot, which is used again; /var/tmp/ddprun/compat/SUITE by default
# Uses the build folder of `cmake --preset release`. All dates are the date of the last commit, or SOURCE_DATE_EPOCH.
# The maintainer is DEBFULLNAME <DEBEMAIL>. Set a real address before you pass packages on: people may ask there for the
# sources. docs/internals/packages.md
set -euo pipefail
cd "$(dirname "$0")/.."

output=
twice=
suite=
root=
usage() {
  echo "package.sh: $1; usage: scripts/package.sh [OUTPUT_FOLDER] [OPTION...], see its head" >&2
  exit 64
}
while (($#)); do
  case $1 in
    --twice) twice=yes ;;
    --release | --root)
      [[ -n ${2:-} ]] || usage "$1 needs a value"
      [[ $1 == --root ]] && root=$2 || suite=$2
      shift
      ;;
    -*) usage "unknown option $1" ;;
    *) output=$1 ;;
  esac
  shift
done
output=${output:-${suite:+/var/tmp/ddprun/packages/$suite}}
output=${output:-build/packages}
mkdir -p "$output"
output=$(realpath "$output")
# Copies the files that this script writes from the folder $1 to the output folder. Removes only older files of these
# names from the output folder.
deliver() {
  (cd "$output" && rm -f {ddprun,ddprun-examples,libddp-dev,python3-ddprun}_*.deb ddprun-*-linux-*-glibc*.tar.gz \
    ddprun.spdx.json SHA256SUMS)
  cp "$1"/{*.deb,*.tar.gz,ddprun.spdx.json,SHA256SUMS} "$output/"
}
[[ -n ${SOURCE_DATE_EPOCH:-} ]] || SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) || {
  echo "package.sh: git does not tell the date of the last commit: set SOURCE_DATE_EPOCH to the packages' date, in" \
    "seconds since 1970" >&2
  exit 69
}
export SOURCE_DATE_EPOCH
umask 022
if [[ -n $suite ]]; then
  root=${root:-/var/tmp/ddprun/compat/$suite}
  scripts/compat.sh "$suite" --root "$root" --packages ${twice:+--twice}
  deliver "$root/source/build/packages"
  exit
fi

scripts/install_packages.sh python3 dpkg-dev file binutils
targets=(ddprun mnist_ddp gpt_ddp ddp completions python-module manuals package-files)
maintainer="${DEBFULLNAME:-ddprun maintainers} <${DEBEMAIL:-maintainers@ddprun.invalid}>"
# The packages need these options, even if an earlier configuration of build/ has switched them off.
options=("-DDDPRUN_MAINTAINER=$maintainer" -DDDPRUN_LAUNCHER=ON -DDDPRUN_WORKER=ON -DDDPRUN_STATIC=ON
  -DDDPRUN_TORCH_DIR:PATH=)
[[ -e build/CMakeCache.txt ]] || options+=(-DDDPRUN_TESTS=OFF "-DDDPRUN_WERROR=${werror:-OFF}")
cmake --preset release "${options[@]}" >/dev/null
cmake --build --preset release --target "${targets[@]}"
scripts/linked_libraries.py build build/package-files/linked

rm -rf build/cpack
cpack --config build/CPackConfig.cmake -G DEB -B build/cpack >build/cpack.log || {
  cat build/cpack.log >&2
  exit 1
}

# One file for any Linux of this architecture with this glibc or a newer one. The name of the file has both.
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' build/CMakeCache.txt)
name=ddprun-$version-linux-$(uname -m)-glibc$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
stage=build/cpack/$name
mkdir -p "$stage"
strip -o "$stage/ddprun" build/bin/ddprun
cp -r LICENSE build/package-files/linked "$stage/"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  --directory build/cpack "$name" | gzip -9n >"build/cpack/$name.tar.gz"
cp build/package-files/linked/ddprun.spdx.json build/cpack/
(cd build/cpack && sha256sum -- *.deb *.tar.gz *.spdx.json >SHA256SUMS)
deliver build/cpack
ls -l "$output"
[[ -n ${DEBEMAIL:-} ]] ||
  echo "package.sh: the maintainer is $maintainer, which is not a real address: set DEBFULLNAME and DEBEMAIL before you pass" \
    "these packages on" >&2

if [[ -n $twice ]]; then
  # At the same path and with the same flags, because the compiled files contain both.
  werror=$(sed -n 's/^DDPRUN_WERROR:BOOL=//p' build/CMakeCache.txt)
  export werror
  second=$(mktemp -d)
  trap 'rm -rf "$second"' EXIT
  mkdir "$second/build" "$second/packages"
  again='mount --make-rprivate / && mount --bind "$1" build && exec scripts/package.sh "$2"'
  CCACHE_DISABLE=1 unshare --mount bash -c "$again" package "$second/build" "$second/packages" >"$second/log" 2>&1 || {
    cat "$second/log" >&2
    exit 1
  }
  diff "$output/SHA256SUMS" "$second/packages/SHA256SUMS" || {
    echo "package.sh: built a second time, these packages differ" >&2
    exit 1
  }
  echo "package.sh: built a second time without the compiler cache, every file is the same to the last bit"
fi
