"""Written for torchrun: rank 0 makes the store on MASTER_PORT by itself."""
import datetime
import os

import torch.distributed as dist

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# Debian's torch 2.x is built without libuv, and asks for it by default.
options = {"use_libuv": False} if hasattr(dist.TCPStore, "libuvBackend") else {}
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size,
                      rank == 0, datetime.timedelta(seconds=60), **options)
dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
dist.barrier()
dist.destroy_process_group()
