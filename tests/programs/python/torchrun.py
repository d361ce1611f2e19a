"""torchrun that also works with Debian's torch 2.x: torchrun's rendezvous need libuv, and Debian's torch has none."""
import functools

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend, static_tcp_rendezvous
from torch.distributed.run import main

if hasattr(dist.TCPStore, "libuvBackend"):
    for module in c10d_rendezvous_backend, static_tcp_rendezvous:
        module.TCPStore = functools.partial(dist.TCPStore, use_libuv=False)
main()
