#!/bin/bash
# Checks our metrics, alerts and dashboard with Prometheus' promtool: it reads the expected texts of the unit tests,
# checks the rules and runs their tests. Also, no expression may name a metric that is not in the table of metrics.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v promtool >/dev/null || {
  echo "check_metrics.sh: there is no promtool: scripts/install_packages.sh --tests" >&2
  exit 77
}

for text in daemon agent; do
  echo "check_metrics.sh: tests/data/metrics/$text.prom"
  promtool check metrics <"tests/data/metrics/$text.prom"
done
promtool check rules packaging/prometheus/alerts.yml
(cd packaging/prometheus && promtool test rules alerts_test.yml)

# The scrape configurations of the docs, as a reader copies them.
configs=$(mktemp -d)
trap 'rm -rf "$configs"' EXIT
awk -v folder="$configs" '/^```yaml/ {file = folder "/" ++n ".yml"; next} /^```/ {file = ""} file {print > file}' \
  docs/metrics.md
[[ -s $configs/1.yml && -s $configs/2.yml ]] || {
  echo "check_metrics.sh: docs/metrics.md has no scrape configurations" >&2
  exit 1
}
for config in "$configs"/*.yml; do
  promtool check config --syntax-only "$config"
done

python3 - <<'END'
import json, re, sys
def read(path):
    return open(path, encoding="utf-8").read()
known = set(re.findall(r'\{"(ddprun_\w+)"', read("rendezvous/metrics/metric_table.h")))
json.loads(read("packaging/grafana/ddprun.json"))
unknown = []
for path in ("packaging/grafana/ddprun.json", "packaging/prometheus/alerts.yml"):
    for name in set(re.findall(r"\bddprun_\w+", read(path))):
        if name not in known and re.sub(r"_(bucket|sum|count)$", "", name) not in known:
            unknown.append(f"{path}: {name} is not in rendezvous/metrics/metric_table.h")
print("\n".join(unknown) or "check_metrics.sh: every metric that is used is known")
sys.exit(bool(unknown))
END
