"""ddprun.DistributedSampler: PyTorch's sampler, which can also continue in the middle of an
epoch."""
import re
import sys

import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler as _Base

_TEXT = re.compile(r"epoch=(\d+) seed=(\d+) dataset_size=(\d+) shuffle=([01]) consumed=(\d+)")
_DEPTH = 8  # the most frames between a DataLoader's code and the first sample


class SamplerState:
    """A place in an epoch. An epoch has one order of the whole dataset. All ranks together have
    used the first `consumed` samples of this order. The place is equal on all ranks, and a job
    with any number of ranks can continue from it."""

    def __init__(self, epoch, seed, dataset_size, shuffle, consumed):
        self.epoch, self.seed, self.dataset_size = epoch, seed, dataset_size
        self.shuffle, self.consumed = bool(shuffle), consumed

    def to_string(self):
        return "epoch=%d seed=%d dataset_size=%d shuffle=%d consumed=%d" % (
            self.epoch, self.seed, self.dataset_size, self.shuffle, self.consumed)

    @classmethod
    def from_string(cls, text):
        """Reads a text of to_string(). Raises ValueError for any other text."""
        match = _TEXT.fullmatch(text)
        state = cls(*map(int, match.groups())) if match else None
        if state is None or state.consumed > state.dataset_size:
            raise ValueError("DistributedSampler: %r is not the text of a SamplerState" % (text,))
        return state


class DistributedSampler(_Base):
    """Gives the same samples in the same order as torch.utils.data.DistributedSampler. It can also
    continue from a state, even if a job with another world size made the state. Then the current
    ranks take the unused samples of the epoch in turn. Each unused sample is used once, except at
    the end of the order: there a few samples are repeated, or left out with `drop_last`.

    `samples_per_step`: the number of samples of this rank that one optimizer step uses. Set it if
    samples are fetched before they are used, for example by a DataLoader with workers. Without
    it, fetched samples count as used. If torch.distributed is not initialized, there is one rank.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False,
                 samples_per_step=None):
        if not (dist.is_available() and dist.is_initialized()):
            num_replicas = 1 if num_replicas is None else num_replicas
            rank = 0 if rank is None else rank
        super().__init__(dataset, num_replicas, rank, shuffle, seed, drop_last)
        self._samples_per_step = samples_per_step
        self._resumed = False  # True: resume() was called, and no sample was requested since
        self._at_first_sample = None
        self._begin(0)

    def _begin(self, used):
        """`used`: the number of samples of the epoch's order that earlier jobs have used."""
        self._used = used
        left = len(self.dataset) - used
        whole, rest = divmod(left, self.num_replicas)
        self.num_samples = whole if self.drop_last or rest == 0 else whole + 1
        self.total_size = self.num_samples * self.num_replicas
        self._fetched = self._finished = 0  # samples of this rank, in this epoch
        self._fetches_ahead = False

    def set_epoch(self, epoch):
        """Selects the order of an epoch, and goes to its first sample. Directly after a resume() in
        the same epoch it changes nothing."""
        if not (self._resumed and epoch == self.epoch):
            self._resumed = False
            super().set_epoch(epoch)
            self._begin(0)

    def __iter__(self):
        if not self._resumed:
            self._begin(0)
        self._resumed = False
        self._fetched = self._finished = 0
        return self._samples()

    def _samples(self):
        action, self._at_first_sample = self._at_first_sample, None
        if action is not None:
            action()
        self._fetches_ahead = _a_loader_fetches_ahead()
        order = self._order()
        # Behind the end of the order comes padding: the order from its front, as often as needed.
        for i in range(self._used + self.rank, self._used + self.total_size, self.num_replicas):
            self._fetched += 1
            yield order[i % len(order)]

    def _order(self):
        size = len(self.dataset)
        if not self.shuffle:
            return range(size)
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        return torch.randperm(size, generator=generator).tolist()

    def finish_step(self):
        """Counts the samples of one more step as used. Checkpointer.step() calls it."""
        if self._samples_per_step is None:
            self._finished = self._fetched
        else:
            self._finished = min(self._finished + self._samples_per_step, self.num_samples)

    def state(self):
        """Returns the place after the last finish_step(), as a SamplerState. Raises ValueError if a
        DataLoader with workers requests the samples and `samples_per_step` is not set."""
        if self._fetches_ahead and self._samples_per_step is None:
            raise ValueError("ddprun.DistributedSampler: the DataLoader has workers, which fetch "
                             "samples before they are used; give samples_per_step")
        # The end of an epoch may have padding or a dropped tail; both count as used.
        consumed = self._used + self._finished * self.num_replicas
        if self._finished == self.num_samples:
            consumed = len(self.dataset)
        return SamplerState(self.epoch, self.seed, len(self.dataset), self.shuffle, consumed)

    def check(self, state):
        """`state`: a SamplerState or its text. Raises ValueError unless this sampler can
        continue from it."""
        if isinstance(state, str):
            state = SamplerState.from_string(state)
        own = self.state_of_start()
        differences = ["%s %d there, %d here" % (name, getattr(state, name), getattr(own, name))
                       for name in ("dataset_size", "seed", "shuffle")
                       if getattr(state, name) != getattr(own, name)]
        if differences:
            raise ValueError("DistributedSampler: the state to resume from is of another order of "
                             "samples: %s, so what it has used cannot be told"
                             % ", ".join(differences))
        return state

    def state_of_start(self):
        return SamplerState(self.epoch, self.seed, len(self.dataset), self.shuffle, 0)

    def resume(self, state):
        """Continues from a SamplerState or its text. The next iteration begins at that place, and
        len() is the number of this rank's remaining samples. Raises ValueError if the dataset's
        size, the seed or shuffle differs."""
        state = self.check(state)
        self.epoch = state.epoch
        self._begin(state.consumed)
        self._resumed = True

    def at_first_sample(self, action):
        """The next iteration will call `action` when its first sample is requested."""
        self._at_first_sample = action


def _a_loader_fetches_ahead():
    """Whether a DataLoader with workers requests the samples (its method is on the stack)."""
    frame = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return False
        if frame.f_code.co_name == "_try_put_index":
            return True
        frame = frame.f_back
    return False
