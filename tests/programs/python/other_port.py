"""Written for torchrun: the ranks meet at a port of their own. usage: other_port.py FOLDER PORT"""
import os
import sys

import torch.distributed as dist

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + sys.argv[2],
                        rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
dist.barrier()
dist.destroy_process_group()
