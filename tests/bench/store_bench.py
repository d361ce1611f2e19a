#!/usr/bin/python3
"""How long the ranks of a large job take to meet at the store: the store of ddprun's agent and torch's own server, in
one run.

The clients are simulated (tests/bench/store_clients.cc): each connects, sets a key, reads another one, and enters a
barrier. Each round starts both servers anew and alternates between them. The table shows the median of each, and the
ratio. Memory is the growth of the server's process for each client.

The clients use the protocol of /usr/bin/python3's torch: that of 1.13, or that of 2.1 and newer. torch 2.x runs its
server without libuv, because Debian builds it so.

usage: tests/bench/store_bench.py [--bin build/bin] [--clients 4096] [--rounds 5]
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys

PHASES = ("connect", "set", "barrier")

TORCH_SERVER = """
import sys
import torch.distributed as dist
options = {"use_libuv": False} if hasattr(dist.TCPStore, "libuvBackend") else {}
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, **options)
print(store.port, flush=True)
sys.stdin.read()
"""


def memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0])


def measure(server, clients_program, clients, dialect):
    """The phases in ms, their sum, and the memory in KiB for each client."""
    process = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = process.stdout.readline().strip()
    before = memory_kib(process.pid)
    simulated = subprocess.Popen([clients_program, port, str(clients), dialect],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    times = [float(time) for time in simulated.stdout.readline().split()]
    memory = (memory_kib(process.pid) - before) / clients
    simulated.communicate()
    process.communicate()
    if len(times) != len(PHASES) or simulated.returncode != 0:
        raise RuntimeError("the clients failed")
    return [*times, sum(times), memory]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--clients", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    version = subprocess.run(
        ["/usr/bin/python3", "-c", "import torch; print(torch.__version__)"], check=True,
        capture_output=True, text=True).stdout.strip()
    dialect = "old" if version.startswith(("1.", "2.0")) else "new"
    servers = {
        "ddprun": [os.path.join(options.bin, "store_server")],
        f"torch {version}": ["/usr/bin/python3", "-c", TORCH_SERVER],
    }
    results = {name: [] for name in servers}
    for _ in range(options.rounds):
        for name, server in servers.items():
            results[name].append(measure(server, os.path.join(options.bin, "store_clients"),
                                         options.clients, dialect))
    medians = {name: [statistics.median(column) for column in zip(*rows)]
               for name, rows in results.items()}
    print(f"{options.clients} clients as of torch {version}, medians of {options.rounds}")
    print(f"{'':16}" + "".join(f"{head:>12}" for head in (*PHASES, "all")) + f"{'KiB/client':>12}")
    for name, row in medians.items():
        print(f"{name:16}" + "".join(f"{value:>9.1f} ms" for value in row[:-1]) + f"{row[-1]:>12.1f}")
    ours, theirs = medians.values()
    print(f"{'ratio':16}" + "".join(f"{b / a:>10.1f} ×" for a, b in zip(ours[:-1], theirs[:-1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
