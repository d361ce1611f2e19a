"""A worker that holds states of a training but does not train: for restore_test.cc.

Generation 0: local rank 0 of each node writes a snapshot, and rank 0 also writes a checkpoint two steps older. They
report this to the agent, print `saved`, and wait. Later generations: every rank prints the state that it is told to
restore, and the source prints whether it has this state. argv: the step of the snapshot on node 0, on node 1 and so
on; 0: no snapshot.
"""
import json
import os
import signal
import socket
import struct
import sys

env = os.environ
rank, node = int(env["RANK"]), int(env["GROUP_RANK"])
generation = int(env["DDPRUN_GENERATION"])
snapshots = env.get("DDPRUN_SNAPSHOT_DIR", "")
checkpoints = env.get("DDPRUN_CHECKPOINT_DIR", "")


def tell(text):
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    agent.connect(env["DDPRUN_CONTROL_SOCKET"])
    agent.send(text.encode())


def slot(step, made_by):
    return os.path.join(snapshots, f"slot-{made_by}-{step}")


def save_checkpoint(step):
    os.makedirs(checkpoints, exist_ok=True)
    path = os.path.join(checkpoints, f"step-{step:012d}.safetensors")
    header = json.dumps({
        "__metadata__": {"ddprun_job": env["TORCHELASTIC_RUN_ID"], "ddprun_epoch": env["DDPRUN_EPOCH"],
                         "ddprun_generation": env["DDPRUN_GENERATION"]},
        "w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + b"1234")
    tell(f"CHECKPOINT={step} {path}")


def main():
    told = {name: env.get("DDPRUN_RESTORE_" + name, "-")
            for name in ("STEP", "RANK", "TIER", "EPOCH", "GENERATION")}
    print("restore", *told.values(), flush=True)
    if "DDPRUN_RESTORE_UNSEEN" in env:
        print("unseen", env["DDPRUN_RESTORE_UNSEEN"], flush=True)
    if generation == 0 and told["STEP"] == "-":
        if env["LOCAL_RANK"] == "0":
            step = int(sys.argv[1 + node])
            if step:
                with open(slot(step, generation), "w") as file:
                    file.write("state")
                tell(f"SNAPSHOT={step}")
            if rank == 0 and checkpoints:
                save_checkpoint(step - 2)
            print("saved", snapshots, flush=True)
        signal.pause()
    if told["RANK"] == str(rank):
        path = (slot(told["STEP"], told["GENERATION"]) if told["TIER"] == "memory" else
                os.path.join(checkpoints, f"step-{int(told['STEP']):012d}.safetensors"))
        print("source has it:", os.path.exists(path), flush=True)


main()
