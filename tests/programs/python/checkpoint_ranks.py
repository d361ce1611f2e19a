"""Several ranks with one ddprun.Checkpointer each: a part of test_checkpointer_ranks.py.

usage: checkpoint_ranks.py FOLDER SCENARIO [FOLDER OF AN EARLIER RUN]
Leaves rank<R>.json: what this rank has seen.
"""

import hashlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "launcher" / "python"))
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import ddprun  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1])
OWN = FOLDER / f"node{os.environ['RANK']}"  # as if each rank were a node


class Training:
    """A model with buffers, and a sampler of 30 samples."""

    def __init__(self, seed=0, **more):
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(),
                                  torch.nn.Linear(4, 1))
        self.model = DistributedDataParallel(net)
        torch.manual_seed(100 + dist.get_rank())  # dropout differs between ranks
        self.optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        self.sampler = ddprun.DistributedSampler(range(30), seed=2)
        self.samples = []  # the samples of each step
        self.checkpointer = ddprun.Checkpointer(self.model, self.optimizer, sampler=self.sampler,
                                                **more)
        self.batches = None  # the batches that are left in the epoch

    def steps(self, until):
        """Trains until that step, or to the end of the epoch."""
        if self.batches is None:
            self.batches = iter(torch.utils.data.BatchSampler(self.sampler, 3, drop_last=False))
        while self.checkpointer.state.step < until:
            samples = next(self.batches, None)
            if samples is None:
                return
            self.optimizer.zero_grad()
            data = torch.randn(3, 3, generator=torch.Generator().manual_seed(samples[0]))
            self.model(data).square().mean().backward()
            self.optimizer.step()
            self.samples.append(samples)
            self.checkpointer.step()

    def digest(self):
        """Two digests: of what must be equal on all ranks after a restore, and of this rank's random generator."""
        tensors = [*self.model.module.state_dict().values()]
        for state in self.optimizer.state_dict()["state"].values():
            tensors += [state["step"], state["exp_avg"], state["exp_avg_sq"]]
        bits = b"".join(tensor.double().numpy().tobytes() for tensor in tensors)
        generator = bytes(torch.get_rng_state().tolist())
        return [hashlib.sha256(data).hexdigest() for data in (bits, generator)]


def saved_and_loaded():
    """All ranks get the state in rank 0's folder; the other ranks need not have it."""
    directory = str(OWN / "disk")
    saved = Training(directory=directory)
    saved.steps(3)
    at_save = saved.digest()
    path = saved.checkpointer.save()
    status = saved.checkpointer.flush()
    saved.steps(5)
    loaded = Training(seed=7, directory=directory)
    state = loaded.checkpointer.load_latest()
    at_load = loaded.digest()
    loaded.steps(5)
    return {"path": os.path.basename(path), "saved": status.saved, "step": state.step,
            "files": sorted(os.listdir(directory)) if os.path.isdir(directory) else [],
            "digest": at_load, "generator": at_save[1] == at_load[1],
            "same": saved.samples[3:] == loaded.samples and saved.digest() == loaded.digest()}


def snapshots():
    """Each node has the same bytes in memory."""
    os.environ.update(DDPRUN_SNAPSHOT_DIR=str(OWN), LOCAL_RANK="0",
                      DDPRUN_JOB_RUN_ID="0123456789abcdef")
    OWN.mkdir()
    training = Training(snapshot_every=1)
    training.steps(5)
    dist.barrier()
    training.checkpointer._steps._writer._background.wait()
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in OWN.iterdir()}


def follows_the_plan():
    """The restore plan names rank 1; only its node has the state in memory."""
    result = snapshots()
    dist.barrier()
    if dist.get_rank() != 1:
        for path in OWN.iterdir():
            path.unlink()
    names = sorted(result)
    os.environ.update(DDPRUN_RESTORE_TIER="memory", DDPRUN_RESTORE_RANK="1",
                      DDPRUN_RESTORE_STEP=str(int(names[-1][5:17])), DDPRUN_RESTORE_EPOCH="-1",
                      DDPRUN_RESTORE_GENERATION="-1")
    training = Training(seed=9, snapshot_every=1)
    state = training.checkpointer.load_latest()
    before = training.digest()
    training.sampler.resume(training.sampler.state_of_start())
    training.steps(state.step + 4)
    training.checkpointer._steps._writer._background.wait()
    return {"step": state.step, "planned": int(names[-1][5:17]), "digest": before,
            "names": sorted(path.name for path in OWN.iterdir())}


def asked_to_save():
    """Rank 1's agent asks for a checkpoint during step 3: all ranks save after step 4, and rank 0 writes."""
    from _ddprun_state import agent

    directory = str(OWN / "disk")
    training = Training(directory=directory)
    rank = dist.get_rank()
    agent.save_requests = lambda: int(rank == 1 and training.checkpointer.state.step >= 3)
    training.steps(5)
    training.checkpointer.flush()
    return {"files": sorted(os.listdir(directory)) if os.path.isdir(directory) else []}


def cannot_read():
    """Rank 1's folder is a file, so it cannot be listed: no rank begins at step 0."""
    os.environ["DDPRUN_STATE_TIMEOUT_MS"] = "200"
    OWN.mkdir()
    directory = OWN / "disk"
    if dist.get_rank() == 1:
        directory.write_text("")
        os.environ["LOCAL_RANK"] = "0"
    try:
        Training(directory=str(directory)).checkpointer.load_latest()
    except ddprun.StateUnreadableError as error:
        return {"error": str(error), "rank": error.failing_rank}
    return {}


def damaged_elsewhere():
    """Rank 1 is on a node of its own and has a file that is too short; rank 0 has no file."""
    os.environ["LOCAL_RANK"] = "0"
    damaged = FOLDER / "node1" / "step-000000000004.safetensors"
    if dist.get_rank() == 1:
        OWN.mkdir()
        damaged.write_text("short")
    try:
        Training(directory=str(OWN)).checkpointer.load_latest()
    except ddprun.StateUnreadableError as error:
        return {"error": str(error), "files": os.listdir(damaged.parent)}
    return {}


def elsewhere():
    """Continues from the state of a run with another number of ranks."""
    training = Training(seed=5, directory=sys.argv[3])
    state = training.checkpointer.load_latest()
    if state is None:
        training.steps(2)
        training.checkpointer.save()
        training.checkpointer.flush()
    else:
        training.steps(1000)
    return {"step": state.step if state else 0, "samples": training.samples}


def main():
    dist.init_process_group("gloo")
    result = globals()[sys.argv[2]]()
    dist.barrier()
    (FOLDER / f"rank{dist.get_rank()}.json").write_text(json.dumps(result))


main()
