"""A worker in a pod that trains nothing: for kubernetes_pods_test.cc.

As soon as the agent has read its first messages, the worker appends "PID NANOSECONDS" (CLOCK_MONOTONIC) to
FOLDER/HOST.gGENERATION.rRANK every 20 ms, until there is a file FOLDER.go. Rank 0 saves a checkpoint at once, and one
more when it is asked to. Each rank prints which step it is told to restore. While there is a file FOLDER.eatRANK, that
rank takes memory without end. argv: FOLDER.
"""
import json
import os
import select
import socket
import struct
import sys
import time

env = os.environ
folder, rank = sys.argv[1], int(env["RANK"])
lives = os.path.join(folder, f"{socket.gethostname()}.g{env['DDPRUN_GENERATION']}.r{rank}")
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(env["DDPRUN_CONTROL_SOCKET"])


def save(step):
    path = os.path.join(env["DDPRUN_CHECKPOINT_DIR"], f"step-{step:012d}.safetensors")
    header = json.dumps({
        "__metadata__": {"ddprun_job": env["TORCHELASTIC_RUN_ID"], "ddprun_epoch": env["DDPRUN_EPOCH"],
                         "ddprun_generation": env["DDPRUN_GENERATION"]},
        "w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + b"1234")
    agent.send(f"CHECKPOINT={step} {path}".encode())


def main():
    eaten = []
    begin = int(env.get("DDPRUN_RESTORE_STEP") or 0)
    print(f"restore {begin}", flush=True)
    agent.send(b"READY=1")
    agent.send(b"PHASE=restore")
    if rank == 0:
        save(begin + 1)
    # The agent answers READY and PROGRESS in their order. With the second answer it knows all of these.
    agent.send(b"PROGRESS=1")
    for _ in range(2):
        while not agent.recv(4096).startswith(b"PROGRESS="):
            pass
    with open(lives, "a", buffering=1) as file:
        while not os.path.exists(folder + ".go"):
            file.write(f"{os.getpid()} {time.clock_gettime_ns(time.CLOCK_MONOTONIC)}\n")
            while os.path.exists(f"{folder}.eat{rank}"):
                eaten.append(b"x" * (1 << 24))
            readable, _, _ = select.select([agent], [], [], 0.02)
            packet = agent.recv(4096) if readable else b"-"
            if not packet:
                return  # the agent is gone
            if b"SAVE=1" in packet and rank == 0:
                save(begin + 2)


main()
