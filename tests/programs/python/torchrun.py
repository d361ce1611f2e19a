"""torchrun, also where Debian's torch 2.x is installed. Its c10d rendezvous asks for libuv, and that torch has none."""
import functools

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend
from torch.distributed.run import main

if hasattr(dist.TCPStore, "libuvBackend"):
    c10d_rendezvous_backend.TCPStore = functools.partial(dist.TCPStore, use_libuv=False)
main()
