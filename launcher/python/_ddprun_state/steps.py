"""The parts of Checkpointer.step() except for the checkpoint files: the agreement with the other
ranks, and this node's snapshots."""
import collections
import os
import time

import torch

from . import agent
from .folder import remove_old_set_aside
from .generators import export_generators
from .ranks import StepAgreement
from .snapshots import SnapshotSchedule, SnapshotWriter

_NEVER = 2**62  # steps

Wishes = collections.namedtuple("Wishes", "save snapshot")


class Steps:
    """Agrees with the other ranks at each step, and makes this node's snapshots."""

    def __init__(self, ranks, snapshots, every_steps, every_s, run):
        """`run`: the id of this run."""
        self._ranks, self._run = ranks, run
        self._folder = os.environ.get("DDPRUN_SNAPSHOT_DIR", "") if snapshots else ""
        self._agreement = StepAgreement(ranks)
        self._schedule = SnapshotSchedule(every_steps, every_s)
        self._writer = None  # on local rank 0, from the first step on
        self._last = None  # when the last step ended
        self._since_snapshot = 0  # steps
        self._saves_done = 0  # number of SAVE requests of the agent that were served
        self.resumed_step = None

    def _prepare(self, parts):
        if not self._folder or self._ranks.local_rank != 0:
            return

        def failed(reason):
            agent.say("SNAPSHOT_FAILED", reason)
            agent.warn(self._ranks.rank, "no snapshots in memory any more on this node: %s. Training "
                       "goes on; a restart resumes from a checkpoint or from another node" % reason)

        remove_old_set_aside(self._folder, self._run)  # only this process uses the folder
        self._writer = SnapshotWriter(self._published, failed)
        self._writer.prepare(self._folder, self.resumed_step, sum(tensor.numel() * tensor.element_size()
                                                                  for _, tensor in parts.tensors()))

    @staticmethod
    def _published(step, took):
        agent.say("SNAPSHOT", str(step))
        agent.saved("memory", took)

    def begin(self, parts):
        """Returns what to do after this step. It is the same on all ranks."""
        now = time.monotonic()
        if self._last is None:
            self._prepare(parts)
        else:
            self._schedule.step_took(now - self._last)
        self._since_snapshot += 1
        makes = self._writer is not None and self._writer.usable
        waits = makes and not self._writer.ready()
        saves, steps, makes = self._agreement.exchange([
            agent.save_requests(), _NEVER if waits else self._schedule.steps(), int(makes)])
        save = saves > self._saves_done
        self._saves_done = max(self._saves_done, saves)
        return Wishes(save, bool(makes) and self._since_snapshot >= steps)

    def snapshot(self, parts, state, texts):
        begin = time.monotonic()
        self._since_snapshot = 0
        metadata = {**texts(), **export_generators(self._ranks, parts.device())}
        tensors = self._with_buffers_of_rank_0(parts)
        if self._writer is not None and self._writer.usable:
            self._writer.publish(state.step, tensors, metadata)
        self._schedule.snapshot_took(time.monotonic() - begin,
                                     self._writer.background_s if self._writer else 0.0)

    def _with_buffers_of_rank_0(self, parts):
        """Returns the tensors of the parts, with rank 0's buffers in place of this rank's. So the
        snapshots of all nodes have the same bytes."""
        names = parts.buffer_names()
        tensors = parts.tensors()
        if self._ranks.size == 1 or not names:
            return tensors
        result = []
        for name, tensor in tensors:
            if name in names:
                tensor = tensor.cpu().clone(memory_format=torch.contiguous_format)
                self._ranks.broadcast(tensor, 0)
            result.append((name, tensor))
        return result

    def end(self):
        self._last = time.monotonic()

    def finish(self):
        self._agreement.finish()

    def newest_snapshot(self):
        return -1 if self._writer is None else self._writer.newest_step
