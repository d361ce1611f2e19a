#!/usr/bin/python3
"""A real Prometheus scrapes a node whose worker is killed: it sees the generation change, the workers' CPU grow and
never fall, and the series of each rank, which end with the job. It scrapes a rendezvous that loses a node: it sees the
loss, the restart and its cause, and the remaining nodes, and fires the alert."""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]

WORKER = """
import os, pathlib, time
folder = pathlib.Path(os.environ["PID_FOLDER"])
(folder / (os.environ["RANK"] + "." + os.environ["TORCHELASTIC_RESTART_COUNT"])).write_text(str(os.getpid()))
end = pathlib.Path(os.environ["PID_FOLDER"]) / "end"
while not end.exists():
    sum(range(20000))
    time.sleep(0.01)
"""


def wait_for(what, get, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = get()
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not seen within {seconds} s")


class Prometheus:
    def __init__(self, folder, target, rules=()):
        self.folder = folder
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({  # YAML, too
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": list(rules),
            "scrape_configs": [{"job_name": "ddprun", "honor_labels": True,
                                "static_configs": [{"targets": [target]}]}]}))
        self.log = (folder / "prometheus.log").open("w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
             "--web.listen-address=127.0.0.1:0", "--log.level=info"],
            stdout=self.log, stderr=subprocess.STDOUT)
        self.address = wait_for("the address of Prometheus", self._address)

    def _address(self):
        """Of the socket that it listens on: port 0 is in no line of its log."""
        listing = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            if f"pid={self.process.pid}," in line:
                return line.split()[3]
        return None

    def query(self, expression):
        """The value; None: there is none now."""
        url = f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return float(result[0]["value"][1]) if result else None

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def metrics_address(log):
    found = re.search(r"metrics of this node: http://([\d.]+:\d+)/metrics", log.read_text())
    return found.group(1) if found else None


def worker_pid(folder, rank, restart):
    path = folder / f"{rank}.{restart}"
    return int(path.read_text()) if path.exists() and path.read_text() else None


def page_address(log):
    found = re.search(r"page on http://([\d.]+:\d+)/", log.read_text())
    return found.group(1) if found else None


def run_worker_loss(ddprun, folder):
    (folder / "worker.py").write_text(WORKER)
    log = folder / "ddprun.log"
    job = subprocess.Popen(
        [ddprun, "--http", "127.0.0.1:0", "--metrics-per-rank", "--nproc-per-node", "2",
         "--max-restarts", "1", "--rdzv-id", "observed", "--log-dir", str(folder / "logs"),
         str(folder / "worker.py")],
        stderr=log.open("w"), stdout=subprocess.DEVNULL, env={**os.environ, "PID_FOLDER": str(folder)})
    prometheus = None
    try:
        address = wait_for("where the metrics are", lambda: metrics_address(log))
        prometheus = Prometheus(folder, address)
        wait_for("generation 0", lambda: prometheus.query('ddprun_agent_generation == 0'))
        wait_for("two workers", lambda: prometheus.query('ddprun_agent_workers == 2'))
        wait_for("CPU of rank 1", lambda: prometheus.query('ddprun_worker_cpu_seconds_total{rank="1"} > 0.1'))
        before = prometheus.query("ddprun_workers_cpu_seconds_total")
        assert prometheus.query('ddprun_agent_info{job="observed"}') == 1

        os.kill(wait_for("pid of rank 1", lambda: worker_pid(folder, 1, 0)), signal.SIGKILL)
        wait_for("generation 1", lambda: prometheus.query('ddprun_agent_generation == 1'))
        wait_for("more CPU", lambda: prometheus.query(f"ddprun_workers_cpu_seconds_total > {before} + 0.1"))
        fell = prometheus.query("resets(ddprun_workers_cpu_seconds_total[5m])")
        assert fell == 0, f"the workers' CPU fell {fell} times"

        (folder / "end").touch()
        assert job.wait(30) == 0, log.read_text()
        wait_for("the end of the target", lambda: prometheus.query("up == 0"))
        wait_for("the end of its series", lambda: True if prometheus.query("ddprun_agent_workers") is None else None)
    finally:
        job.kill()
        job.wait()
        if prometheus:
            prometheus.end()


def start_node(ddprun, folder, endpoint, number):
    """One of two nodes of the job. The job needs only one."""
    with (folder / f"node{number}.log").open("w") as log:
        return subprocess.Popen(
            [ddprun, "--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-id", "observed", "--rdzv-endpoint", endpoint,
             "--local-addr", f"127.0.0.{number}", "--log-dir", str(folder / f"logs{number}"),
             str(folder / "worker.py")],
            stderr=log, stdout=subprocess.DEVNULL, env={**os.environ, "PID_FOLDER": str(folder)})


def run_node_loss(ddprun, folder):
    (folder / "worker.py").write_text(WORKER)
    out = folder / "daemon.out"
    with out.open("w") as text:
        daemon = subprocess.Popen(
            [ddprun, "rendezvous", "--listen", "127.0.0.1:0", "--port-file", str(folder / "port"), "--http",
             "127.0.0.1:0"], stdout=text, stderr=subprocess.DEVNULL)
    processes = [daemon]
    prometheus = None
    try:
        address = wait_for("where the page is", lambda: page_address(out))
        endpoint = "127.0.0.1:" + (folder / "port").read_text().strip()
        prometheus = Prometheus(folder, address, [str(ROOT / "packaging/prometheus/alerts.yml")])
        nodes = [start_node(ddprun, folder, endpoint, number) for number in (1, 2)]
        processes += nodes
        wait_for("two nodes", lambda: prometheus.query('ddprun_job_nodes{job="observed",state="running"} == 2'))
        wait_for("the counter before it counts", lambda: prometheus.query("ddprun_job_nodes_lost_total == 0"))
        generation = prometheus.query("ddprun_job_generation")

        nodes[1].kill()
        wait_for("the loss", lambda: prometheus.query('ddprun_job_nodes_lost_total{job="observed"} == 1'))
        wait_for("its restart", lambda: prometheus.query('ddprun_job_restarts_total{cause="node_lost"} == 1'))
        wait_for("the next generation", lambda: prometheus.query(f"ddprun_job_generation > {generation}"))
        wait_for("who is left", lambda: prometheus.query('ddprun_job_nodes{state="running"} == 1'))
        wait_for("the alert", lambda: prometheus.query(
            'ALERTS{alertname="DdprunNodeLost",alertstate="firing",job="observed"}'))
        spent = prometheus.query('ddprun_job_restarts_total{cause="worker_failed"}')
        assert not spent, f"{spent} restarts are said to be of a worker's failure"

        (folder / "end").touch()
        assert nodes[0].wait(30) == 0, (folder / "node1.log").read_text()
        wait_for("the end of the job", lambda: prometheus.query('ddprun_job_state{state="Succeeded"} == 1'))
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        if prometheus:
            prometheus.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ddprun", required=True)
    arguments = parser.parse_args()
    if not shutil.which("prometheus"):
        print("there is no prometheus: scripts/install_packages.sh --tests")
        return 77
    for run, what in ((run_worker_loss, "the worker's end"), (run_node_loss, "the loss of a node")):
        with tempfile.TemporaryDirectory(prefix="ddprun-prometheus-") as folder:
            run(arguments.ddprun, pathlib.Path(folder))
        print("Prometheus has seen", what)
    return 0


if __name__ == "__main__":
    sys.exit(main())
