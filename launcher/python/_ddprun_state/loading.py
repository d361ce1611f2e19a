"""Loads the newest valid state into the parts of a training, on all ranks."""
import collections

import torch

from . import agent, plan
from .errors import CheckpointError, StateUnreadableError, UnavailableError
from .parts import Restore
from .safetensors import StoredTensor
from .search import StateSearch, WhereToLook
from .transfer import transfer

_SHOWN = 4
_PLACE = ("step", "epoch", "batch", "world_size", "user")

Found = collections.namedtuple("Found", "path metadata")


class Loader:
    def __init__(self, ranks, directory, environ, run):
        self._ranks, self._directory, self._environ, self._run = ranks, directory, environ, run
        self._followed_order = False
        self._loaded_step = None
        self._rejected = []  # states that were found but could not be loaded

    def load(self, parts, saved_steps):
        """Loads the state into `parts`. A collective. Returns a Found, or None if there is no
        state. `saved_steps`: the steps that this process itself has saved to files. Raises
        StateUnreadableError, AgreedError."""
        self._rejected = []
        where = self._everywhere()
        first, self._followed_order = not self._followed_order, True
        anew = plan.begins_anew(self._environ)
        order = plan.read_order(self._environ, self._ranks.size) if first else None
        unseen = plan.read_unseen(self._environ, self._ranks.size) if first else None
        found = self._load_unseen(unseen, parts) if unseen else None
        if found is not None:
            pass  # newer than the state of the restore plan
        elif order and not (anew and order.from_the_start):
            found = self._load_by_order(order, where, parts)
        elif order and plan.is_requeued(self._environ):
            # A folder that cannot be listed may hold this job's own files.
            where.highest_step = -1
            found = self._load(where, parts)
        elif not order and not (anew and first):
            if anew:
                own = {*saved_steps, self._loaded_step}
                where.allows = lambda metadata: plan.number_in(metadata, "step") in own
            where.looks_everywhere = not anew
            where.counts_whole_files = first  # later, an agent may have reported such a file
            found = self._load(where, parts)
        if found is None and self._rejected:
            self._refuse_to_begin_anew(order)
        if found is not None:
            self._loaded_step = int(found.metadata["step"])
        return found

    def _everywhere(self):
        return WhereToLook([self._directory] if self._directory else [],
                           plan.state_timeout_s(self._environ), self._run)

    def _load_unseen(self, unseen, parts):
        """Returns None if the node of unseen.rank does not have the checkpoint. Waits for folders
        that cannot be listed."""
        where = self._everywhere()
        where.lowest_step = where.highest_step = unseen.step
        where.allows, where.source = unseen.allows, unseen.rank
        return self._load(where, parts)

    def _load_by_order(self, order, where, parts):
        if order.from_the_start:
            # ddprun knows no state to load. But it does not see damaged files, nor the content of
            # folders that cannot be listed. If such files or folders exist, training must not begin
            # at step 0.
            where.allows = lambda metadata: False
            where.looks_everywhere = True
            return self._load(where, parts)
        memory = self._environ.get("DDPRUN_SNAPSHOT_DIR")
        if memory:
            where.folders.insert(0, memory)
        where.highest_step, where.allows, where.source = order.step, order.allows, order.rank
        where.folders_count = not order.of_this_run
        found = self._load(where, parts)
        if found is None and where.source != 0:
            where.source = 0
            found = self._load(where, parts)
        if found is None and not self._rejected and not order.of_this_run:
            # The states are of another training, which wrote until this one took the folder.
            where.highest_step = plan.MAX_STEP
            where.allows = lambda metadata: not order.is_from_before(metadata)
            found = self._load(where, parts)
        if found is None and not self._rejected:
            self._rejected.append("its files are gone")
        if found is not None and self._ranks.rank == 0 and int(found.metadata["step"]) != order.step:
            agent.warn(0, "the state of step %d, with which all ranks were to begin, is not usable; "
                       "they begin with step %s" % (order.step, found.metadata["step"]))
        return found

    def _load(self, where, parts):
        search = StateSearch(self._ranks, where)
        while True:
            found = search.next()
            if found is None:
                self._rejected += search.rejected
                return None
            path, metadata, tensors = found
            tensors = [StoredTensor(*tensor) for tensor in tensors]
            restore, places = self._ranks.together(
                "a checkpoint does not fit this program: ",
                lambda: _plan(parts, path, metadata, tensors))
            with torch.no_grad():
                fault = transfer(self._ranks, where.source, search.file(), tensors, places)
                if fault is None and search.provisional and not search.accept():
                    continue
                if fault is None:
                    restore.finish()
                    if search.file():
                        search.file().close()
                    return Found(path, metadata)
            if isinstance(fault, UnavailableError):
                search.put_off(fault)
            else:
                search.set_aside(str(fault))

    def _refuse_to_begin_anew(self, order):
        """Raises StateUnreadableError, because a state exists and must not be ignored silently."""
        text = "there are checkpoints, and none of them can be loaded"
        if order and not order.from_the_start:
            text = ("the state of step %d, with which all ranks were to begin, cannot be loaded, and "
                    "no older one either" % order.step)
        for reason in self._rejected[:_SHOWN]:
            text += "; " + reason
        if len(self._rejected) > _SHOWN:
            text += "; and %d more" % (len(self._rejected) - _SHOWN)
        raise StateUnreadableError(
            "rank 0: " + text + ". Training does not begin at step 0 beside them: repair them or give "
            "another folder; or start with --start-anew, to begin at step 0. Nothing is deleted", 0)


def _plan(parts, path, metadata, tensors):
    """Returns the Restore, and the tensors that receive the bytes. Raises CheckpointError."""
    try:
        missing = [key for key in _PLACE if key not in metadata]
        if missing:
            raise CheckpointError("its metadata lacks " + ", ".join(missing))
        restore = Restore(parts, tensors, metadata)
        return restore, restore.places()
    except CheckpointError as error:
        raise CheckpointError("%s: %s. Give another checkpoint folder to start afresh"
                              % (path, error)) from None
