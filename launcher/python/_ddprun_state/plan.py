"""What the launcher says about states in the environment: the state with which this generation
begins, and the maker of new states. Also: the runs from which a state descends."""
import os

MAX_STEP = 2**63 - 1
_MAX_ANCESTORS = 256
_STATE_TIMEOUT_MS = 120000
_LONGEST_TIMEOUT_MS = 31622400000  # 366 days
_drawn = os.urandom(8).hex()  # the run id of this process, if no launcher has given one


def _number(environ, name, end):
    text = environ.get(name, "")
    if text.isdecimal() and text.isascii() and int(text) < end:
        return int(text)
    raise ValueError("the environment has %s=%s, but expected is a whole number of 0 to %d"
                     % (name, text, end - 1))


def _maker(environ, name):
    return -1 if environ.get(name, "-1") == "-1" else _number(environ, name, MAX_STEP)


def number_in(metadata, key):
    text = metadata.get(key, "")
    return int(text) if text.isdecimal() and text.isascii() else -1


class Unseen:
    """A newer checkpoint that the ranks look for before they follow the restore plan
    (DDPRUN_RESTORE_UNSEEN). `rank`: the rank that may have it."""

    def __init__(self, environ, world_size):
        text = environ["DDPRUN_RESTORE_UNSEEN"]
        try:
            self.step, self.rank, self.requeue_number, self.generation = map(int, text.split())
        except ValueError:
            self.step = -1
        if self.step < 0 or not 0 <= self.rank < world_size:
            raise ValueError("the environment has DDPRUN_RESTORE_UNSEEN=%s, but expected is \"STEP "
                             "RANK EPOCH GENERATION\", with a rank below %d" % (text, world_size))
        self._job = environ.get("TORCHELASTIC_RUN_ID")
        self._only_run = _only_run(environ)

    def allows(self, metadata):
        if self._only_run is not None and metadata.get("ddprun_run") != self._only_run:
            return False
        made = (metadata.get("ddprun_job"), number_in(metadata, "ddprun_epoch"),
                number_in(metadata, "ddprun_generation"))
        return self.generation < 0 or made == (self._job, self.requeue_number, self.generation)


def _only_run(environ):
    """Returns the only run whose states may be loaded; None: any. A requeued job continues from its
    own files, which may be of an earlier run."""
    anew = begins_anew(environ) and _maker(environ, "DDPRUN_EPOCH") == 0
    return environ.get("DDPRUN_JOB_RUN_ID") if anew else None


def read_unseen(environ, world_size):
    """Returns None if there is no such checkpoint. Raises ValueError for malformed values."""
    return Unseen(environ, world_size) if "DDPRUN_RESTORE_UNSEEN" in environ else None


class RestoreOrder:
    """The restore plan (DDPRUN_RESTORE_*). It is the same on all ranks."""

    def __init__(self, environ, world_size):
        tier = environ["DDPRUN_RESTORE_TIER"]
        self.from_the_start = tier == "none"
        if self.from_the_start:
            return
        if tier not in ("memory", "durable"):
            raise ValueError("the environment has DDPRUN_RESTORE_TIER=%s, but expected is memory, "
                             "durable or none" % tier)
        self.step = _number(environ, "DDPRUN_RESTORE_STEP", MAX_STEP)
        self.rank = _number(environ, "DDPRUN_RESTORE_RANK", world_size)
        self.requeue_number = _maker(environ, "DDPRUN_RESTORE_EPOCH")
        self.generation = _maker(environ, "DDPRUN_RESTORE_GENERATION")
        self._job = environ.get("TORCHELASTIC_RUN_ID")
        self._only_run = _only_run(environ)
        # True: the state is of this run, so the rendezvous knows of every newer one in any folder.
        self.of_this_run = (self.generation >= 0 and _maker(environ, "DDPRUN_GENERATION") > 0
                            and _maker(environ, "DDPRUN_EPOCH") == self.requeue_number)

    def is_from_before(self, metadata):
        """Whether training begins anew, and another run made the state."""
        return self._only_run is not None and metadata.get("ddprun_run") != self._only_run

    def allows(self, metadata):
        """Whether a file may be loaded: the planned state; or, if that is damaged, an older state.
        A state of a later generation is not allowed, because that generation continued from another
        state."""
        if self.is_from_before(metadata):
            return False
        if self.generation < 0:
            return True
        maker = (-1, -1)
        if self._job is not None and metadata.get("ddprun_job") == self._job:
            maker = (number_in(metadata, "ddprun_epoch"), number_in(metadata, "ddprun_generation"))
        ordered = (self.requeue_number, self.generation)
        return maker == ordered if number_in(metadata, "step") == self.step else maker <= ordered


def read_order(environ, world_size):
    """Returns the restore plan. None: the launcher has set none. Raises ValueError for malformed
    values."""
    return RestoreOrder(environ, world_size) if "DDPRUN_RESTORE_TIER" in environ else None


def is_requeued(environ):
    """Whether a scheduler has started the job again. The job then continues from its own files."""
    return _maker(environ, "DDPRUN_EPOCH") > 0


def begins_anew(environ):
    return environ.get("DDPRUN_ANEW") == "1"


def state_timeout_s(environ):
    """For how many seconds to try again to read an unavailable state."""
    if "DDPRUN_STATE_TIMEOUT_MS" not in environ:
        return _STATE_TIMEOUT_MS / 1000
    return _number(environ, "DDPRUN_STATE_TIMEOUT_MS", _LONGEST_TIMEOUT_MS + 1) / 1000


def maker(environ):
    """Returns the maker of a state as metadata: {} if the launcher has not set it."""
    names = {"ddprun_job": "TORCHELASTIC_RUN_ID", "ddprun_epoch": "DDPRUN_EPOCH",
             "ddprun_generation": "DDPRUN_GENERATION"}
    if not all(name in environ for name in names.values()):
        return {}
    return {key: environ[name] for key, name in names.items()}


class Lineage:
    """The run that makes a state, and the earlier runs from which the state descends, the latest
    first. Decides which old files a save may remove."""

    def __init__(self, environ):
        self.run = environ.get("DDPRUN_JOB_RUN_ID", _drawn)
        self._ancestors = []

    def loaded(self, metadata):
        """Call it when this run continues from a state with this metadata."""
        ancestors = [run for run in metadata.get("ddprun_descends_from", "").split(",") if run]
        run = metadata.get("ddprun_run", "")
        if run and run != self.run:
            ancestors.insert(0, run)
        self._ancestors = ancestors[:_MAX_ANCESTORS]

    def metadata(self):
        entries = {"ddprun_run": self.run}
        if self._ancestors:
            entries["ddprun_descends_from"] = ",".join(self._ancestors)
        return entries

    def may_remove(self, metadata):
        """Returns True for files of this run, and of the run from whose state it continued. Never
        for a file without a run."""
        run = metadata.get("ddprun_run", "")
        return run != "" and run in [self.run, *self._ancestors[:1]]
