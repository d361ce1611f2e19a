"""Several processes that meet at a store: host, port, count. Prints "well" for each."""

import datetime
import os
import signal
import sys

import torch.distributed as dist


# Debian's torch 2.x is built without libuv, and asks for it by default.
OPTIONS = {"use_libuv": False} if hasattr(dist.TCPStore, "libuvBackend") else {}


def meet(host, port, number, count):
    store = dist.TCPStore(host, port, count, False, datetime.timedelta(seconds=60), **OPTIONS)
    store.set(f"from/{number}", f"value of {number}")
    assert store.add("counter", number + 1) > 0
    for other in range(count):
        assert store.get(f"from/{other}") == f"value of {other}".encode()
    if store.add("met", 1) == count:
        assert store.get("counter") == str(count * (count + 1) // 2).encode()
        store.set("over", "")
    store.wait(["over"])
    os.write(1, b"well\n")  # in one write: all processes share stdout


def main(host, port, count):
    # torch is imported once for all processes: eight imports take longer than the test.
    for number in range(int(count)):
        if os.fork() == 0:
            signal.alarm(100)
            meet(host, int(port), number, int(count))
            os._exit(0)
    for _ in range(int(count)):
        if os.wait()[1] != 0:
            sys.exit(1)


main(*sys.argv[1:])
