#!/bin/bash
# mandoc and groff find no fault in the manual pages, and `man` shows them.
# usage: manuals_test.sh MAKE_MANUALS
set -euo pipefail
make_manuals=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for program in mandoc groff; do
  command -v "$program" >/dev/null || {
    echo "left out, it needs $program"
    exit 77
  }
done

"$make_manuals" "$folder" 1.2.3 2026-01-31
pages=("$folder"/*)
((${#pages[@]} >= 22)) || {
  echo "manuals_test.sh: expected 22 pages or more, found: ${pages[*]}" >&2
  exit 1
}
failed=0
for page in "${pages[@]}"; do
  name=${page##*/}
  found=$(mandoc -Tlint -Wall "$page" 2>&1 || true; groff -ww -z -man -Tutf8 "$page" 2>&1)
  [[ -z $found ]] || {
    echo "$name: $found" >&2
    failed=1
  }
  shown=$(mandoc -Tutf8 -Owidth=100 "$page" | col -b)
  [[ $shown == *" ${name%.*} - "* ]] || {
    echo "$name: mandoc does not show its name" >&2
    failed=1
  }
done
exit $failed
