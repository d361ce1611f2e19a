#!/usr/bin/python3
"""The Python worker of launch_bench.py: makes a process group, and writes down the time.

usage: launch_worker.py FOLDER | --stay      under a launcher; --stay: until it is ended
"""
import os
import sys
import time

import torch.distributed as dist

dist.init_process_group("gloo")
if sys.argv[1] == "--stay":
    time.sleep(1000)
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w", encoding="ascii") as file:
    file.write(str(time.monotonic_ns()))
