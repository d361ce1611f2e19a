"""Communication between the ranks of this training, through torch.distributed. If that is not
initialized, there is a single rank."""
import os

import torch
import torch.distributed as dist

from .errors import AgreedError


class Ranks:
    def __init__(self):
        self._alone = not (dist.is_available() and dist.is_initialized())
        self.rank = 0 if self._alone else dist.get_rank()
        self.size = 1 if self._alone else dist.get_world_size()
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self._group = None

    def group(self):
        """Returns a process group with Gloo, because the messages are in CPU memory. The first call
        is a collective."""
        if self._group is None:
            default = dist.group.WORLD
            self._group = default if dist.get_backend() == "gloo" else dist.new_group(backend="gloo")
        return self._group

    def broadcast(self, tensor, source):
        """Fills a CPU tensor with the values that it has on rank `source`."""
        if self.size > 1:
            dist.broadcast(tensor, src=source, group=self.group())

    def broadcast_object(self, value, source):
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=source, group=self.group())
        return box[0]

    def gather_objects(self, value):
        """Returns the objects of all ranks, by rank."""
        if self.size == 1:
            return [value]
        everybody = [None] * self.size
        dist.all_gather_object(everybody, value, group=self.group())
        return everybody

    def together(self, what, action):
        """Calls `action`. An exception on any rank becomes AgreedError on all ranks."""
        problem, result = "", None
        try:
            result = action()
        except Exception as error:
            problem = what + str(error)
        for rank, text in enumerate(self.gather_objects(problem)):
            if text:
                raise AgreedError("rank %d: %s" % (rank, text), rank)
        return result

    def gather_bytes(self, tensor):
        """Returns the byte tensors of all ranks, by rank. All must have the same length."""
        if self.size == 1:
            return [tensor]
        everybody = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(everybody, tensor, group=self.group())
        return everybody


class StepAgreement:
    """Agreement between the ranks from step to step. Usually no rank waits. Each rank gives values
    at the end of a step. At the end of the next step it gets the maximum of all ranks' values."""

    def __init__(self, ranks):
        self._ranks = ranks
        self._values = self._work = None

    def exchange(self, mine):
        """Returns the element-wise maximum of the values that all ranks gave in the previous call.
        The first call returns zeros. A single rank gets `mine` at once."""
        if self._ranks.size == 1:
            return mine
        agreed = self.finish() or [0] * len(mine)
        self._values = torch.tensor(mine, dtype=torch.int64)
        self._work = dist.all_reduce(self._values, op=dist.ReduceOp.MAX, group=self._ranks.group(),
                                     async_op=True)
        return agreed

    def finish(self):
        """Waits for the pending exchange, and returns its result. None: there is none."""
        if self._work is None:
            return None
        self._work.wait()
        self._work = None
        return self._values.tolist()
