"""ddprun.Checkpointer: saves and restores a training, in files and in memory."""
import json
import os
import time

from . import agent, optimizer_state, owner, plan
from .errors import CheckpointError, FolderTakenError, StateUnreadableError
from .folder import checkpoint_name
from .generators import export_generators, restore_generators
from .loading import Loader
from .parts import Parts
from .ranks import Ranks
from .state import State
from .steps import Steps
from .writer import CheckpointWriter, SaveStatus

_SHARDED = ("ZeroRedundancyOptimizer", "FullyShardedDataParallel", "DTensor")


class Checkpointer:
    """Saves the states of a training. After a restart the training continues from the newest one.

        checkpointer = ddprun.Checkpointer(model, optimizer, scheduler, sampler)
        checkpointer.load_latest()                # before the first step
        ...
        checkpointer.step()                       # after each optimizer step

    `model`: a DistributedDataParallel, or a module that is equal on all ranks.

    `directory`: the folder of the checkpoint files. The default is $DDPRUN_CHECKPOINT_DIR
    (--checkpoint-dir). If that is not set, or `directory` is "", states are only kept in memory.

    step() writes a checkpoint file every `save_every` steps (0: never), and whenever ddprun
    requests one (a preemption, `ddprun stop --save`). A save removes old files of this run and of
    the run from which this run continues. The newest `keep_last` of these files stay, and those
    whose step is a multiple of `keep_every` (0: none). `when_busy` is "wait" or "skip": what a save does
    if the previous one is unfinished.

    Under ddprun, step() also makes snapshots in the memory of each node: every `snapshot_every`
    steps; if that is 0, every `snapshot_interval` seconds; if both are 0, as often as they cost
    less than 1 % of the time. With `snapshots=False` it makes none.

    save(), step(), flush(), close() and load_latest() are collectives: all ranks must call them,
    in the same order, from one thread at a time. If you use torch.distributed, initialize it
    before you make the Checkpointer.
    """

    def __init__(self, model, optimizer, scheduler=None, sampler=None, *, directory=None, keep_last=2,
                 keep_every=0, save_every=0, when_busy="wait", snapshots=True, snapshot_every=0,
                 snapshot_interval=0.0):
        environ = os.environ
        self._check(keep_last, keep_every, save_every, when_busy, snapshot_every, snapshot_interval)
        if directory == "" and save_every > 0:
            raise ValueError("ddprun.Checkpointer: save_every needs a directory, and it is empty")
        if directory is None:
            directory = environ.get("DDPRUN_CHECKPOINT_DIR", "")
        self._refuse_shards(model, optimizer)
        # Absolute, because ddprun reads it from another working directory.
        self._directory = os.path.abspath(directory) if directory else ""
        self._save_every, self._when_busy = save_every, when_busy
        agent.say("SAVES", "1" if self._directory else "0")
        self._ranks = Ranks()
        self._parts = Parts(model, optimizer, scheduler, sampler)
        self._state = State()
        self._lineage = plan.Lineage(environ)
        own = owner.FolderOwner(self._directory, owner.Owner.of_process(environ),
                                "DDPRUN_TAKE_FOLDER" in environ)
        self._writer = CheckpointWriter(self._directory, keep_last, keep_every, own)
        self._loader = Loader(self._ranks, self._directory, environ, self._lineage.run)
        self._claimed = False
        self._known = SaveStatus()  # what rank 0 said in the last flush()
        self._steps = Steps(self._ranks, snapshots, snapshot_every, snapshot_interval,
                            self._lineage.run)

    @staticmethod
    def _check(keep_last, keep_every, save_every, when_busy, snapshot_every, snapshot_interval):
        for name, value, least in (("keep_last", keep_last, 1), ("keep_every", keep_every, 0),
                                   ("save_every", save_every, 0),
                                   ("snapshot_every", snapshot_every, 0),
                                   ("snapshot_interval", snapshot_interval, 0)):
            if value < least:
                raise ValueError("ddprun.Checkpointer: %s is %s, it must be at least %d"
                                 % (name, value, least))
        if when_busy not in ("wait", "skip"):
            raise ValueError("ddprun.Checkpointer: when_busy is 'wait' or 'skip' (found %r)"
                             % (when_busy,))

    @staticmethod
    def _refuse_shards(model, optimizer):
        """Refuses models and optimizers that are divided among the ranks, because rank 0 does not
        have the whole state."""
        things = [optimizer, *model.modules(), *optimizer_state.parameters_of(optimizer)]
        for thing in things:
            name = type(thing).__name__
            if name in _SHARDED:
                raise ValueError("ddprun.Checkpointer: a %s has a part of the state on each rank; only "
                                 "states that are alike on all ranks can be saved" % name)

    @property
    def state(self):
        """The place in the training: of the loaded state, and later of the last step()."""
        return self._state

    def load_latest(self):
        """Loads the newest valid state into model, optimizer, scheduler and sampler, on every
        rank. Also restores torch's generators. Returns the State. If there is no state, it
        returns None and changes nothing.

        If ddprun knows a state, it gives the ranks a restore plan: the state to load may come from
        the node of any rank, from memory or disk. The first call follows that plan. Without a
        plan the state is the newest file in rank 0's directory. Raises StateUnreadableError if a
        state exists and cannot be loaded, AgreedError if it does not fit the training, and
        FolderTakenError if the directory belongs to another training.
        """
        agent.phase("restore")
        self._writer.wait()
        self._claim()
        try:
            found = self._loader.load(self._parts, self._writer.saved_steps)
        except StateUnreadableError as error:
            self._tell_error("state", error)
            raise
        agent.phase("first_step")
        if found is None:
            return None
        metadata = found.metadata
        self._lineage.loaded(metadata)
        self._state = State(int(metadata["step"]), int(metadata["epoch"]), int(metadata["batch"]),
                            json.loads(metadata["user"]), int(metadata["world_size"]), found.path)
        self._steps.resumed_step = self._state.step
        self._restore_generators(metadata)
        return self._state

    def _restore_generators(self, metadata):
        def restore():
            restore_generators(self._ranks, metadata, self._parts.device())

        restore()
        if self._parts.sampler is not None:
            # Restores again at the first sample: a DataLoader draws a random number when its
            # iteration begins.
            self._parts.sampler.at_first_sample(restore)

    def _tell_error(self, kind, error):
        """Reports an error that all ranks raise. Only the failing rank reports it as the cause.
        The others report that they are victims."""
        kind = kind if error.failing_rank == self._ranks.rank else "collective"
        agent.say("ERROR", "%s %s" % (kind, error))

    def _claim(self):
        """Claims the folder for this training. Called before the first read or write there.
        Consists of short collectives, because rank 0 may wait for a long time."""
        if self._claimed or not self._directory:
            return
        self._claimed = True
        first = True
        while True:
            said = self._ranks.broadcast_object(self._try_claim(first), 0)
            if said == "":
                return
            if said != "wait":
                error = FolderTakenError("rank 0: " + said, 0)
                self._tell_error("folder", error)
                raise error
            first = False

    def _try_claim(self, first):
        if self._ranks.rank != 0:
            return None
        if not first:
            time.sleep(owner.LOOK_S)
        try:
            return "" if self._writer.try_claim() else "wait"
        except owner.FolderTaken as error:
            return str(error)
        except CheckpointError as error:  # each save retries and reports
            agent.warn(0, "the checkpoint folder is not claimed: %s" % error)
            return ""

    def _moved_on(self, step, epoch, batch, user):
        """Returns the place after a step. If a value is None: step and batch count up, the epoch is
        the sampler's, and `user` stays."""
        sampler, last = self._parts.sampler, self._state
        if epoch is None:
            epoch = last.epoch if sampler is None else sampler.epoch
        if batch is None:
            batch = last.batch + 1 if epoch == last.epoch else 1
        user = last.user if user is None else user
        if not all(isinstance(text, str) for pair in user.items() for text in pair):
            raise TypeError("ddprun.Checkpointer: `user` is a dict of texts")
        return State(last.step + 1 if step is None else step, epoch, batch, user, self._ranks.size)

    def step(self, step=None, *, epoch=None, batch=None, user=None):
        """Call it after each optimizer step (and after the scheduler's step, if the scheduler
        steps with the optimizer). Reports the step to ddprun. Makes a snapshot and a checkpoint
        file if they are due. If ddprun has requested a file, all ranks make it at the same step.

        `step`, `epoch`, `batch`: the place after the step, as in State. By default the step and
        the batch count up, and the epoch is the sampler's. `user`: texts that load_latest() will
        return. Raises the same errors as save().
        """
        if self._parts.sampler is not None:
            self._parts.sampler.finish_step()
        self._state = self._moved_on(step, epoch, batch, user)
        agent.step(self._state.step)
        wishes = self._steps.begin(self._parts)
        due = self._save_every > 0 and self._state.step % self._save_every == 0
        if self._directory and (wishes.save or due):
            self._save("wait" if wishes.save else self._when_busy)
        if wishes.snapshot:
            self._steps.snapshot(self._parts, self._state, self._texts)
        self._steps.end()

    def save(self, *, user=None):
        """Begins a checkpoint file with the place of the last step(), or of the state that
        load_latest() loaded. Returns the file's path on all ranks, or "" if the save was skipped
        (when_busy). Rank 0 waits for one copy of the state. Raises ValueError if there is no
        directory, and AgreedError for errors that would also occur at the next save. Never raises
        for disk errors: status() and flush() report them."""
        if user is not None:
            last = self._state
            self._state = self._moved_on(last.step, last.epoch, last.batch, user)
        return self._save(self._when_busy)

    def _texts(self):
        return {**self._parts.texts(), **self._state.metadata(), "world_size": str(self._ranks.size),
                **plan.maker(os.environ), **self._lineage.metadata()}

    def _save(self, when_busy):
        if not self._directory:
            raise ValueError("ddprun.Checkpointer: there is no directory")
        with agent.saving():
            return self._begin_file(when_busy)

    def _begin_file(self, when_busy):
        self._claim()
        step = self._state.step

        def prepare():
            metadata = self._texts()
            if self._ranks.rank != 0:
                return metadata, None
            if when_busy == "skip" and self._writer.busy():
                self._writer.count_skipped()
                return metadata, None
            self._writer.wait()
            return metadata, self._parts.tensors()

        metadata, tensors = self._ranks.together("checkpoint of step %d: " % step, prepare)
        metadata.update(export_generators(self._ranks, self._parts.device()))
        if self._ranks.broadcast_object(tensors is None, 0):
            return ""
        if self._ranks.rank == 0:
            self._writer.start(step, tensors, metadata, self._lineage)
        return os.path.join(self._directory, checkpoint_name(step))

    def flush(self):
        """Waits until the last file is on disk or has failed. Returns the results of all saves: a
        SaveStatus, equal on all ranks except for snapshot_step."""
        with agent.saving():
            self._writer.wait()
            self._known = self._ranks.broadcast_object(self._writer.status(), 0)
        return self.status()

    def status(self):
        """Returns the results that this rank knows: on rank 0 the current ones, on other ranks
        those of the last flush(). Does not wait. Not a collective."""
        status = self._writer.status() if self._ranks.rank == 0 else self._known
        status.snapshot_step = self._steps.newest_snapshot()
        return status

    def close(self):
        """Call it when the training has ended well. Waits for the file that is being written, and
        releases the directory for the next training. Without this call, ddprun releases the
        directory at the end of the job."""
        with agent.saving():
            self._steps.finish()
            if self._ranks.rank == 0:
                self._writer.release()
