"""In its first generation rank 0 finds its port taken, as if another program listened there."""
import json
import os
import pathlib
import socket
import sys

import torch.distributed as dist

taken = None
if os.environ["DDPRUN_GENERATION"] == "0" and os.environ["RANK"] == "0":
    taken = socket.create_server(("", int(os.environ["MASTER_PORT"])))
dist.init_process_group("gloo")
dist.barrier()
result = {"port": os.environ["MASTER_PORT"], "generation": os.environ["DDPRUN_GENERATION"]}
pathlib.Path(sys.argv[1], f"rank{dist.get_rank()}.json").write_text(json.dumps(result))
dist.destroy_process_group()
