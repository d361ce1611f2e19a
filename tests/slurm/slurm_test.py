#!/usr/bin/python3
"""ddprun under a real Slurm: real slurmctld, slurmd and srun, four nodes on this host.

usage: tests/slurm/slurm_test.py SCENARIO... [--bin build/bin] [--keep]
       tests/slurm/slurm_test.py --list
Needs root and Slurm; exits 77 if one of them is missing, or 1 with DDPRUN_TESTS=all.
"""
import argparse
import importlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from slurm_cluster import ROOT, Cluster, Wrong  # noqa: E402

MODULES = ("foreign_scenarios", "node_scenarios", "preemption_scenarios", "start_scenarios", "submit_scenarios",
           "twin_scenarios")
MISSING = 77
INSIDE = "DDPRUN_SLURM_TEST_INSIDE"


def scenarios():
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        found.update({function_name: function for function_name, function
                      in inspect.getmembers(module, inspect.isfunction)
                      if function.__module__ == name and not function_name.startswith("_")})
    return found


def run(name, function, arguments):
    # Not in /tmp, because each node has a /tmp of its own. Not in the checkout either: it may be in a home folder that
    # other users cannot enter, and munged's folder must be open to all.
    folder = tempfile.mkdtemp(prefix="ddprun-slurm-", dir="/var/tmp")
    os.chmod(folder, 0o755)  # for munged
    began = time.monotonic()
    try:
        with Cluster(os.path.join(folder, "c"), os.path.abspath(arguments.bin)) as cluster:
            function(cluster)
    except Wrong as error:
        print(f"{name}: {error}\nFAILED; {folder} is left", file=sys.stderr)
        return False
    if not arguments.keep:
        shutil.rmtree(folder)
    print(f"{name}: as it should, in {time.monotonic() - began:.1f} s")
    return True


def why_impossible():
    """Why there can be no cluster on this host; None if there can be one."""
    if os.geteuid() != 0:
        return "root, for the network namespaces of a cluster on one host"
    missing = [program for program in ("slurmctld", "slurmd", "srun", "munged", "ip")
               if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)}: scripts/install_packages.sh --tests installs them"
    probe = subprocess.run(["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true"],
                           text=True, capture_output=True, check=False)
    return f"CAP_SYS_ADMIN, for namespaces: {probe.stderr.strip()}" if probe.returncode != 0 else None


def go_inside():
    """Starts this program again with a network, mounts and processes of its own. So several clusters can run at
    the same time, and nothing outlives this test, however it ends. bash, as pid 1, reaps orphans."""
    script = ("mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up || exit; "
              '"$@"; exit $?')
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                          "--mount-proc", "bash", "-c", script, "bash", sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="*")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--keep", action="store_true", help="leave the cluster's folder")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    known = scenarios()
    if arguments.list:
        print("\n".join(known))
        return 0
    if not arguments.scenario or set(arguments.scenario) - set(known):
        parser.error(f"expected some of: {' '.join(known)}")
    if (why := why_impossible()):
        print(f"left out, it needs {why}", file=sys.stderr)
        return 1 if os.environ.get("DDPRUN_TESTS") == "all" else MISSING
    if INSIDE not in os.environ:
        sys.stdout.flush()
        go_inside()
    results = [run(name, known[name], arguments) for name in arguments.scenario]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
