#!/usr/bin/python3
"""The Python worker of hang_campaign.py; hang_trainer.cc does the same in C++ and documents it.

usage: hang_trainer.py FOLDER FAULT PLACE RANK module|unmodified
With "module" it tells its steps and its evaluation, else nothing.
"""
import contextlib
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 24
FAULTY_STEP = 12  # a multiple of the two below
CHECKPOINT_EVERY = 4
EVALUATE_EVERY = 6

FOLDER, FAULT, PLACE, FAULTY_RANK, TELLS = sys.argv[1:]
RANK = int(os.environ["RANK"])

if TELLS == "module":
    import ddprun


def StopItself():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.01)


def LoopForEver():
    while True:
        pass


def LockTwice():
    first, second = threading.Lock(), threading.Lock()
    first.acquire()
    locked = threading.Event()

    def other():
        second.acquire()
        locked.set()
        first.acquire()

    threading.Thread(target=other, daemon=True).start()
    locked.wait()
    second.acquire()


def SleepInLoading():
    while True:
        time.sleep(1000)


def ReadFifo():
    fifo = os.open(FOLDER + "/fifo", os.O_RDWR)  # so that open does not wait
    os.read(fifo, 1)
    os.close(fifo)


def ComputeAWhile():
    while time.process_time() < 5:  # loading torch takes 2
        pass


def DieAndJoinLate():
    os.kill(os.getpid(), signal.SIGKILL)


def WriteFrozen():
    file = os.open(FOLDER + "/frozen/shard", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x")
    os.fsync(file)


def WaitForThread():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    batch = threading.Event()
    batch.wait()


def SkipCollective():
    while True:
        time.sleep(1000)


def note(name="fault"):
    with open(f"{FOLDER}/{name}", "a", encoding="ascii") as file:
        file.write(f"{time.time_ns()}\n")


def fault_at(place):
    here = RANK == int(FAULTY_RANK)
    if os.environ["DDPRUN_GENERATION"] != "0":
        if FAULT == "DieAndJoinLate" and here and place == "before_init":
            ReadFifo()
        return
    if place == "before_init" and not here:
        note("at_init")
    if place != PLACE:
        return
    if FAULT in ("SkipCollective", "MismatchedSize"):
        if here:
            note()
        if here and FAULT == "SkipCollective":
            SkipCollective()
        dist.all_reduce(torch.zeros(3000 if here else 2000))
    elif here and FAULT != "none":
        note()
        globals()[FAULT]()


def evaluation():
    return ddprun.phase("evaluation") if TELLS == "module" else contextlib.nullcontext()


def load_batch(step):
    torch.manual_seed(1000 * step + RANK)
    return torch.randn(8, 16)


def save(model, optimizer, step):
    path = FOLDER + "/state.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
               path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    fault_at("before_init")
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                                                        torch.nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = 0
    if os.path.exists(FOLDER + "/state.pt"):
        state = torch.load(FOLDER + "/state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    dist.barrier()  # all have read the same
    while step < STEPS:
        faulty = step + 1 == FAULTY_STEP
        if step == 0:
            fault_at("first_step")
        if faulty:
            fault_at("step")
        batch = load_batch(step)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        step += 1
        if TELLS == "module":
            ddprun.step(step)
        if faulty:
            fault_at("checkpoint")
        if step % CHECKPOINT_EVERY == 0 and RANK == 0:
            save(model, optimizer, step)
        if step % EVALUATE_EVERY == 0:
            with evaluation(), torch.no_grad():
                if step == EVALUATE_EVERY:
                    fault_at("first_evaluation")
                if faulty:
                    fault_at("evaluation")
                dist.all_reduce(model.module(batch).sum())
        time.sleep(0.05)
    if RANK == 0:
        with open(FOLDER + "/result", "wb") as file:
            for parameter in model.parameters():
                file.write(parameter.detach().numpy().tobytes())


main()
