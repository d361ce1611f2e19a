#!/bin/bash
# Checks format, includes, layers, sizes, tests, docs and warnings, so that a reviewer need not. Names every finding;
# exits 1 if there is one.
#   format     clang-format 14 agrees with every C++ file; left out if another version is installed
#   includes   no file includes a header of a folder that its own folder may not use (docs/internals/architecture.md)
#   layers     only their own folders include yaml-cpp, CLI11, Boost and elfutils; no pure folder reads a clock or the
#              environment, or draws random numbers
#   sizes      files per folder, lines per function, members per class: scripts/check_sizes.py
#   tests      every test source is named by the nearest CMakeLists.txt
#   docs       links resolve, whatever docs name exists, whatever exists is documented, something runs each command of
#              README.md and docs/first-job.md, and no text has a phrase of scripts/wording.py: scripts/check_docs.py
#   warnings   every target of ours is compiled with -Wall -Wextra, and -Werror in a developer's build
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
finding() { # check, text
  echo "check.sh: $1: $2" >&2
  failed=1
}
sources() { git ls-files --cached --others --exclude-standard -- "$@" | grep -E '\.(h|cc)$' || true; }

# ---- format ----
command -v clang-format >/dev/null || scripts/install_packages.sh --no-worker clang-format
# Each version of clang-format breaks some lines in another way. The version of Debian 12 counts.
format="format, "
if [[ $(clang-format --version) == *' version 14.'* ]]; then
  while read -r file; do
    clang-format --dry-run --Werror "$file" 2>/dev/null || finding format "$file: run clang-format -i"
  done < <(sources '*.h' '*.cc')
else
  format=
  echo "check.sh: format: left out, it needs clang-format 14"
fi

# ---- includes ----
upward_includes=0
upward() { # file:line:include
  finding includes "$1"
  upward_includes=$((upward_includes + 1))
}
# folder | what its files may not include
no_grpc='(grpc|grpcpp|google/protobuf|ddprun/v1)/|"etcd/'
no_torch='(torch|ATen|c10|gloo)/'
impure="$no_grpc|(spdlog|yaml-cpp|CLI)/|<(thread|mutex|condition_variable|fstream|filesystem|random|unistd\\.h|sys/.*)>"
arrows=(
  "rendezvous/core|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|client|hangs|json|machine|service|store|wire))/"
  "rendezvous/machine|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|client|json|service|store|wire))/"
  "rendezvous/hangs|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|client|json|machine|service|store|wire))/"
  "rendezvous/leadership|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|client|hangs|http|json|machine|metrics|service|stacks|store|wire))/"
  "rendezvous/json|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|service|client|wire))/"
  "rendezvous/metrics|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|client|hangs|http|json|machine|service|store|wire))/"
  "rendezvous/stacks|$no_torch|$impure|\"(launcher|rendezvous/(auth|etcd|client|core|json|machine|service|store|wire))/"
  "launcher/core|$no_torch|$impure|\"(launcher/(agent|commands|config|connection|node|os|stacks)|rendezvous/(auth|etcd|service|client|wire))/"
  "launcher/config|$no_torch|$no_grpc|\"(rendezvous/(auth|etcd|client|json|service|store|wire)|launcher/(agent|commands|connection|core|node|os))/"
  "launcher/manual|$no_torch|$no_grpc|\"(rendezvous/(auth|etcd|client|json|service|store|wire)|launcher/(agent|commands|connection|core|node|os|text))/"
  "launcher/connection|\"launcher/(commands|node)/"
  "launcher/agent|\"launcher/(commands|connection|metrics|node)/"
  "launcher/node|\"launcher/commands/"
  "launcher/metrics|$no_torch|$no_grpc|\"(launcher/(commands|connection|node)|rendezvous/(client|service|wire))/"
  "launcher/text|$no_torch|$impure|\"(launcher/(agent|commands|config|connection|core|node|os|stacks)|rendezvous/(auth|etcd|service|client|wire))/"
  "launcher/torch_store|$no_torch|$impure|\"(launcher/(agent|commands|config|connection|core|node|os|stacks|text)|rendezvous|worker)/"
  "launcher/stacks|$no_torch|$no_grpc|\"(launcher/(agent|commands|config|connection|core|node)|rendezvous/(auth|etcd|client|core|json|machine|service|store|wire))/"
  "launcher/os|$no_torch|$no_grpc|\"(launcher/(agent|commands|config|connection|core|node|stacks)|rendezvous/(auth|etcd|service|client|wire))/"
  "launcher|$no_torch|$no_grpc|\"rendezvous/wire/|\"worker/(include|src)/"
  "rendezvous|$no_torch|\"launcher/|\"worker/(include|src)/"
  "rendezvous/auth|\"rendezvous/(service|client|wire|store)/"
  "rendezvous/store|$no_grpc|\"rendezvous/(etcd|service|client|wire)/"
  "rendezvous/etcd|\"rendezvous/(client|hangs|http|json|leadership|machine|metrics|service|stacks|wire)/"
  "rendezvous/client|\"rendezvous/(http|service)/"
  "rendezvous/service|\"rendezvous/http/"
  "rendezvous/auth|\"rendezvous/http/"
  "rendezvous/http/server|$no_grpc|\"rendezvous/(client|hangs|http/(access|page)|json|machine|service|stacks|store|wire)/"
  "rendezvous/http/access|$no_grpc|\"rendezvous/(client|hangs|http/page|json|machine|service|stacks|store|wire)/"
  "rendezvous/http/page|$no_grpc|\"rendezvous/client/"
  "rendezvous/service|\"rendezvous/client/"
  "worker|$no_grpc|\"(launcher|rendezvous)/"
  "worker/contract|$no_torch|\"worker/(include|src)/"
)
for arrow in "${arrows[@]}"; do
  folder=${arrow%%|*}
  while IFS= read -r line; do
    upward "$line"
  done < <(sources "$folder" | xargs -r grep -HnE "#include.*(${arrow#*|})" || true)
done
# Each folder of worker/src may include the folders before it in these two lists. The first list makes ddp_base.
without_torch=(base agent peers formats storage transfer)
with_torch=(compat group collectives data_parallel state restore checkpoint run)
allowed=
for folder in "${without_torch[@]}" "${with_torch[@]}"; do
  allowed+="${allowed:+|}$folder"
  while IFS= read -r line; do
    upward "$line"
  done < <(sources "worker/src/$folder" |
    xargs -r grep -HnE '#include "worker/src/' | grep -vE "\"worker/src/($allowed)/" || true)
done
while IFS= read -r file; do
  finding includes "$file: its folder has no place in the order of worker/src"
done < <(sources worker/src | grep -vE "^worker/src/($allowed)/" || true)
while IFS= read -r line; do
  upward "$line: ddp_base has no libtorch"
done < <(sources "${without_torch[@]/#/worker/src/}" |
  xargs -r grep -HnE "#include.*($no_torch)|#include +<ddp/" |
  grep -vE '<ddp/(errors|save_status|data_parallel_options)\.h>' || true)
echo "check.sh: upward includes: $upward_includes"

# ---- layers ----
# In the product, only launcher/config includes yaml-cpp and CLI11. (The examples in worker/ use CLI11, too.)
while IFS= read -r line; do
  finding layers "$line: yaml-cpp and CLI11 stop in launcher/config"
done < <(sources launcher rendezvous | grep -v '^launcher/config/' |
  xargs -r grep -HnE '#include *<(yaml-cpp|CLI)/' || true)
# No folder that docs/internals/architecture.md calls pure reads a clock or the environment, or draws random numbers.
while IFS= read -r line; do
  finding layers "$line: a core gets time and randomness as arguments"
done < <(sources rendezvous/core rendezvous/hangs rendezvous/machine rendezvous/metrics rendezvous/stacks rendezvous/json \
  rendezvous/leadership rendezvous/http/access launcher/core launcher/text launcher/torch_store launcher/manual |
  xargs -r grep -HnE '_clock::now|random_device|std::rand\b|getenv' || true)

# Boost takes longest to parse, so only one source includes it.
while IFS= read -r line; do
  finding layers "$line: Boost stops in rendezvous/http/server"
done < <(sources launcher rendezvous | grep -v '^rendezvous/http/server/' |
  xargs -r grep -HnE '#include *<boost/' || true)

# elfutils reads files of unknown origin, so only the helper process uses it.
while IFS= read -r line; do
  finding layers "$line: elfutils stops in launcher/stacks/images and unwinder"
done < <(sources launcher rendezvous | grep -vE '^launcher/stacks/(images|unwinder)\.(h|cc)$' |
  xargs -r grep -HnE '#include <(elfutils/|libelf|gelf|dwarf)' || true)

# ---- sizes ----
command -v ctags >/dev/null || scripts/install_packages.sh --no-worker universal-ctags
scripts/check_sizes.py || failed=1

# ---- tests ----
while read -r file; do
  folder=$(dirname "$file")
  while [[ ! -e $folder/CMakeLists.txt ]]; do folder=$(dirname "$folder"); done
  grep -qs "\b${file#"$folder/"}\b" "$folder/CMakeLists.txt" ||
    finding tests "$file is not in $folder/CMakeLists.txt"
done < <(sources tests | grep -E '_(test|bench)\.cc$')

# ---- docs ----
scripts/check_docs.py || failed=1

# ---- warnings ----
database=build/compile_commands.json
if [[ -f $database ]]; then
  while IFS= read -r line; do
    finding warnings "$line"
  done < <(python3 - "$database" "$PWD" <<'EOF'
import json, os, sys
database, root = sys.argv[1:]
flags = ["-Wall", "-Wextra"]
if "DDPRUN_WERROR:BOOL=ON" in open(os.path.join(os.path.dirname(database), "CMakeCache.txt")).read():
    flags.append("-Werror")
for entry in json.load(open(database)):
    file = entry["file"]
    # Our sources: single files, or several in one (Unity). Generated sources in build/ are not ours.
    if not file.startswith(root) or "/build/" in file[len(root):] and "/Unity/" not in file:
        continue
    for flag in flags:
        if f" {flag} " not in entry["command"] + " ":
            print(f"{file[len(root) + 1:]} is compiled without {flag}")
EOF
  )
else
  finding warnings "no $database: run scripts/test.sh or cmake --preset release first"
fi

((failed)) || echo "check.sh: ${format}includes, layers, sizes, tests, docs and warnings are clean"
exit $failed
