"""Writes checkpoints to disk in the background, one at a time. After an error that checkpoint is
missing, and the training continues. The error is printed to stderr, reported to the agent, and
counted."""
import copy
import os
import time

from . import agent, folder
from .background import Background
from .errors import CheckpointError
from .image import Staging


class SaveStatus:
    """The results of a Checkpointer's saves. `saved`, `failed`, `skipped`: how many checkpoints
    were written, could not be written, or were skipped. `writing`: True while one is being
    written. `durable_step`, `durable_path`: the newest checkpoint on disk (-1 and "": none).
    `snapshot_step`: the newest snapshot of this rank's node, on local rank 0 (-1: none, or another
    rank). `error`: why the last finished save failed; "" if it succeeded."""

    def __init__(self):
        self.saved = self.failed = self.skipped = 0
        self.writing = False
        self.durable_step = self.snapshot_step = -1
        self.durable_path = self.error = ""


class CheckpointWriter:
    """Only rank 0 saves with it."""

    def __init__(self, directory, keep_last, keep_every, owner):
        self._directory, self._owner = directory, owner
        self._keep_last, self._keep_every = keep_last, keep_every
        self._background = Background("ddp-checkpoint")
        self._staging = Staging()
        self._folder_was_there = False
        self._status = SaveStatus()
        self.saved_steps = set()

    def busy(self):
        return self._background.busy()

    def wait(self):
        self._background.wait()

    def status(self):
        self._status.writing = self.busy()
        return copy.copy(self._status)

    def count_skipped(self):
        self._status.skipped += 1

    def start(self, step, tensors, metadata, lineage):
        """Begins a save. Returns when the current values are copied. If another save is
        unfinished, it first waits for that save."""
        self.wait()
        try:
            image = self._staging.copy(step, tensors, metadata)
        except RuntimeError as error:  # out of memory
            self._fail(step, str(error))
            return
        self._background.post(lambda: self._write(image, lineage))

    def _write(self, image, lineage):
        if self._folder_was_there and not os.path.exists(self._directory):
            agent.warn(0, "the checkpoint folder %s has vanished, and with it the checkpoints that "
                       "were there; making it anew" % self._directory)
        try:
            begin = time.monotonic()
            path = folder.save_checkpoint(self._directory, image, self._owner, lineage)
            took = time.monotonic() - begin
        except Exception as error:
            self._fail(image.step, str(error))
            return
        self._folder_was_there = True
        self._status.saved += 1
        self._status.durable_step, self._status.durable_path = image.step, path
        self._status.error = ""
        self.saved_steps.add(image.step)
        agent.say("CHECKPOINT", "%d %s" % (image.step, path))
        agent.saved("durable", took)
        try:
            with self._owner.guard():
                folder.remove_old(self._directory, image.step, self._keep_last, self._keep_every,
                                  lineage)
                folder.remove_old_set_aside(self._directory, lineage.run)
        except Exception as error:
            agent.warn(0, "old checkpoints are not removed: %s" % error)

    def _fail(self, step, reason):
        self._status.failed += 1
        self._status.error = reason
        newest = ("the newest checkpoint is " + self._status.durable_path if self._status.saved
                  else "this run has saved none yet, and older files are as they were")
        agent.warn(0, "checkpoint of step %d is not saved: %s. Training goes on; %s; the next save "
                   "tries again. Failed so far: %d" % (step, reason, newest, self._status.failed))
        agent.say("CHECKPOINT_FAILED", "%d %d %s" % (step, self._status.failed, reason))

    def try_claim(self):
        """Claims the folder. Returns False if it must be called again after owner.LOOK_S."""
        self.wait()
        try:
            return self._owner.try_claim()
        except OSError as error:
            raise CheckpointError(str(error)) from None

    def release(self):
        self.wait()
        self._owner.release()
