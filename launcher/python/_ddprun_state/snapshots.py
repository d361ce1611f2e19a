"""Snapshots: states in a node's memory, in two files (slots) in DDPRUN_SNAPSHOT_DIR. While one
file is written, the other holds a complete state (worker/src/storage/snapshot_slots.h).

A complete file has the name of a checkpoint. From the first write until it is complete again, its
name is slot-<n>.tmp. So a file with the name of a checkpoint is always complete, even if a process
is killed at any moment. Both files outlive the process. The next process uses them again, because
the first access to new memory costs far more than the copy.
"""
import math
import os
import time

from .background import Background
from .durable_file import fail, write_all
from .errors import CheckpointError
from .folder import checkpoint_name
from .image import Staging
from .memory_room import memory_room
from .safetensors import build_header, memory_of

_SPARE_BYTES = 64 << 20  # memory that must stay free for everything else
_HEADER_BYTES = 64 << 10
_SHARE = 0.01  # share of the training time that snapshots may take
_MEMORY = 16  # the mean step time covers about this number of steps


class SnapshotSlots:
    """The two files. Only one thread at a time may use it."""

    def __init__(self, folder, keep_step):
        """`keep_step`: the step from which this process resumed, or None. The state of that step
        in `folder` is not overwritten until there is a newer one. If another node had that state,
        the same applies to the newest older state in `folder`."""
        self._folder = folder
        self._temporaries = [os.path.join(folder, "slot-%d.tmp" % i) for i in range(2)]
        self._paths = list(self._temporaries)  # current paths of the two slots
        self._newest = 1
        found = [os.path.join(folder, name) for name in os.listdir(folder)
                 if name.endswith(".safetensors")]
        if keep_step is not None:
            last = os.path.join(folder, checkpoint_name(keep_step))
            # Paths have equal lengths, so they sort by step.
            kept = max((path for path in found if path <= last), default=None)
            if kept is not None:
                self._paths[self._newest] = kept
                found.remove(kept)
        for path in found:  # superseded or unusable
            free = [i for i in range(2) if self._paths[i] == self._temporaries[i]
                    and not os.path.exists(self._temporaries[i])]
            if free:
                os.rename(path, self._temporaries[free[0]])
            else:
                os.unlink(path)

    def check_room(self, size):
        """Raises CheckpointError if there is no room for two states of `size` bytes. The text says
        how much is needed, and how much there is."""
        needed = _SPARE_BYTES
        for path in self._paths:
            there = os.stat(path).st_blocks * 512 if os.path.exists(path) else 0
            needed += max(0, _HEADER_BYTES + size - there)
        room = memory_room(self._folder)
        if room < needed:
            raise CheckpointError("two snapshots of %d MiB need %d MiB more, and there are %d MiB in "
                                  "%s and under the memory limits of this process"
                                  % (size >> 20, needed >> 20, room >> 20, self._folder))

    def publish(self, image):
        """Writes a state over the older one. Returns its path."""
        older = 1 - self._newest
        temporary = self._temporaries[older]
        path = os.path.join(self._folder, checkpoint_name(image.step))
        try:
            if self._paths[older] != temporary:
                os.rename(self._paths[older], temporary)
                self._paths[older] = temporary
            # The file is not truncated first: that would free its memory, and the kernel would have
            # to allocate it again.
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                header = build_header(image.tensors, image.metadata)
                pieces = [header, *map(memory_of, image.values())]
                write_all(file, pieces, temporary)
                os.ftruncate(file, sum(map(len, pieces)))
            finally:
                os.close(file)
            os.rename(temporary, path)
        except OSError as error:
            fail("write", temporary, error)
        if self._paths[self._newest] == path:  # the same step again: the file was replaced
            self._paths[self._newest] = self._temporaries[self._newest]
        self._paths[older] = path
        self._newest = older
        return path


class SnapshotSchedule:
    """Computes how often a snapshot may be made without a noticeable cost. Each rank has its own
    schedule. The ranks use the longest interval of all."""

    def __init__(self, every_steps, every_s):
        self._every_steps, self._every_s = every_steps, every_s
        self._step_s = self._cost_s = 0.0

    def step_took(self, seconds):
        """`seconds`: the duration of a step without its snapshot."""
        self._step_s += seconds if self._step_s == 0 else (seconds - self._step_s) / _MEMORY

    def snapshot_took(self, stall_s, background_s):
        self._cost_s = stall_s + background_s

    def steps(self):
        """Returns the number of steps from one snapshot to the next: at least 1."""
        if self._every_steps > 0:
            return self._every_steps
        wanted = self._every_s if self._every_s > 0 else self._cost_s / _SHARE
        return max(1, math.ceil(wanted / max(self._step_s, 1e-9)))


class SnapshotWriter:
    """Makes snapshots in the background. After an error this process makes no more snapshots, and
    the training continues. Call all methods on the thread of the training. `on_published` and
    `on_failed` run on the background thread; `on_failed` is called once."""

    def __init__(self, on_published, on_failed):
        self._on_published, self._on_failed = on_published, on_failed
        self._background = Background("ddp-snapshot")
        self._staging = Staging()
        self._slots = None
        self.usable = True
        self.newest_step = -1
        self.background_s = 0.0

    def ready(self):
        return self.usable and not self._background.busy()

    def prepare(self, folder, keep_step, size):
        """Opens the slots. `size`: the bytes of a state. `keep_step`: see SnapshotSlots."""
        def action():
            self._slots = SnapshotSlots(folder, keep_step)
            self._slots.check_room(size)

        self._background.post(lambda: self._try(action))

    def publish(self, step, tensors, metadata):
        """Begins a snapshot. Returns when the current values are copied."""
        self._background.wait()
        image = self._staging.copy(step, tensors, metadata)
        self._background.post(lambda: self._try(lambda: self._write(image)))

    def _write(self, image):
        begin, begin_at = time.thread_time(), time.monotonic()
        self._slots.publish(image)
        self.newest_step = image.step
        self.background_s = time.thread_time() - begin
        self._on_published(image.step, time.monotonic() - begin_at)

    def _try(self, action):
        try:
            if self.usable:
                action()
        except (CheckpointError, OSError) as error:
            self.usable = False
            self._on_failed(str(error))
