"""The file `owner` of a checkpoint folder. It prevents two trainings, or two generations of one
training, from writing into the same folder. worker/contract/checkpoint_owner.h describes the
content of the file, and worker/src/storage/folder_owner.h the rules."""
import contextlib
import errno
import fcntl
import os
import sys
import threading
import time

from . import process
from .durable_file import make_folder
from .errors import CheckpointError, printable

_FILE = "owner"
_FILE_BYTES = 4096  # at most this number of bytes is read
_REFRESH_S = 10.0  # the owner renews the time of the file this often
_SILENCE_S = 30.0  # after this time without renewal the folder is free
_LOCK_S = 10.0  # how long to wait for the lock
LOOK_S = 0.5  # a process that waits for the folder looks this often


def _name_of_job(job):
    """The job's name in a sentence (worker/contract/job_name.h)."""
    return "the job" if job == "none" else "job " + job


class FolderTaken(CheckpointError):
    """The folder belongs to another training, or to a later generation."""


class Owner:
    """The content of the file."""

    def __init__(self, job, requeue_number, generation):
        self.job, self.requeue_number, self.generation = job, requeue_number, generation
        self.run = self.host = self.started = self.machine = self.slurm = ""
        self.pid = 0
        self.released = False

    @classmethod
    def of_process(cls, environ):
        """Returns this process as an Owner. None: no launcher has set the owner's variables. Then
        claims are not checked."""
        names = ("TORCHELASTIC_RUN_ID", "DDPRUN_EPOCH", "DDPRUN_GENERATION", "DDPRUN_JOB_RUN_ID")
        if not all(name in environ for name in names):
            return None
        job, requeue_number, generation, run = (environ[name] for name in names)
        owner = cls(job, int(requeue_number), int(generation))
        owner.run = run
        owner.host = process.host_name()
        owner.pid = os.getpid()
        owner.started = process.start_time_of(owner.pid)
        owner.machine = process.machine()
        owner.slurm = environ.get("SLURM_JOB_ID", "")
        return owner

    @classmethod
    def parse(cls, text):
        """Reads the content of the file. None: its first line is incomplete. Ignores unknown
        words, which later versions may write."""
        first, newline, rest = text.partition("\n")
        words = first.split(" ", 2)
        if not newline or len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
            return None
        owner = cls(words[2], int(words[0]), int(words[1]))
        second, newline, _ = rest.partition("\n")
        if newline:
            values = dict(word.split("=", 1) for word in second.split(" ") if "=" in word)
            for name in ("run", "host", "started", "machine", "slurm"):
                setattr(owner, name, values.get(name, ""))
            owner.pid = int(values.get("pid", "0")) if values.get("pid", "0").isdigit() else 0
            owner.released = values.get("state") == "released"
        return owner

    def text(self, released=False):
        return ("%d %d %s\nrun=%s host=%s pid=%d started=%s machine=%s slurm=%s state=%s\n"
                % (self.requeue_number, self.generation, self.job, self.run, self.host, self.pid,
                   self.started, self.machine, self.slurm, "released" if released else "held"))

    def life(self):
        return (self.requeue_number, self.generation)

    def is_same_life(self, other):
        return self.run == other.run and self.life() == other.life()

    def __str__(self):
        """Text for people, without control characters, because another user may have written the
        file."""
        text = "requeue number %d, generation %d, of %s" % (self.requeue_number, self.generation,
                                                            _name_of_job(self.job))
        if self.run:
            text += " (run %s, process %d on %s)" % (self.run, self.pid, self.host)
        return printable(text)


def judge_claim(own, owner, silent_s, gone, take_folder):
    """Returns "take", "wait" or "refuse". Pure. `silent_s`: seconds since the owner renewed the
    file. `gone`: the owner ran on this machine, and its process no longer exists."""
    if owner is None:
        return "take"
    if owner.run == own.run:
        return "refuse" if owner.job == own.job and owner.life() > own.life() else "take"
    if owner.job == own.job and (owner.slurm == own.slurm or not owner.slurm or not own.slurm):
        if owner.requeue_number != own.requeue_number:
            return "refuse" if owner.requeue_number > own.requeue_number else "take"  # Slurm requeues jobs
    free = owner.released or gone or silent_s >= _SILENCE_S or take_folder
    return "take" if free else "wait"


class _OwnerFile:
    """The owner file, open."""

    def __init__(self, folder, flags):
        self.path = os.path.join(folder, _FILE)
        try:
            self.file = os.open(self.path, flags | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise CheckpointError("cannot open %s: %s" % (self.path, error.strerror)) from None

    def lock(self):
        until = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                    return  # the file system has no locks: go on without one
                if error.errno != errno.EWOULDBLOCK:
                    raise
                if time.monotonic() >= until:
                    raise CheckpointError(self._who_has_the_lock()) from None
            time.sleep(0.01)

    def _who_has_the_lock(self):
        holder = process.lock_holder(self.path)
        owner = self.read()
        return ("the lock of the checkpoint folder %s was not free for %d s: %s has it%s"
                % (os.path.dirname(self.path), _LOCK_S,
                   holder or "a process on another host or in another container",
                   "; the folder belongs to %s" % owner if owner else ""))

    def read(self):
        return Owner.parse(os.pread(self.file, _FILE_BYTES, 0).decode(errors="replace"))

    def write(self, owner, released=False):
        """Overwrites the file instead of replacing it, because the lock is on this file."""
        text = owner.text(released).encode()
        os.pwrite(self.file, text, 0)
        os.ftruncate(self.file, len(text))
        os.fsync(self.file)

    def heard(self):
        return os.fstat(self.file).st_mtime

    def touch(self):
        os.utime(self.file)

    def close(self):
        # Unlocks explicitly: a process that was forked meanwhile also has this file open, and would
        # keep the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(self.file, fcntl.LOCK_UN)
        os.close(self.file)


class FolderOwner:
    """This process's claim on a folder. Only one thread at a time may use it. Its own thread renews
    the time of the owner file every 10 s."""

    def __init__(self, folder, own, take_folder):
        self._folder, self._own, self._take_folder = folder, own, take_folder
        self._claimed = False
        self._heard = None  # while waiting: when the owner last renewed the file
        self._stop = None  # an Event that ends the thread; None: there is no thread

    @contextlib.contextmanager
    def _locked(self):
        file = _OwnerFile(self._folder, os.O_RDWR | os.O_CREAT)
        try:
            file.lock()
            yield file
        except OSError as error:
            raise CheckpointError("%s: %s" % (file.path, error.strerror)) from None
        finally:
            file.close()

    def try_claim(self):
        """Claims the folder for this process. Returns False if the folder's owner may still live:
        call it again after LOOK_S. The first time, it also says so on stderr. Raises FolderTaken;
        or CheckpointError if the owner file cannot be opened or locked."""
        if self._own is None or self._claimed:
            return True
        make_folder(self._folder)
        with self._locked() as file:
            owner, heard = file.read(), file.heard()
            os.utime(self._folder)  # now, by the clock of the file system, as for the owner file
            silent = os.stat(self._folder).st_mtime - heard
            verdict = judge_claim(self._own, owner, silent, self._is_gone(owner),
                                  self._take_folder)
            if verdict == "take":
                self._take(file)
                return True
        if verdict == "refuse":
            self._refuse(owner, ", and this is what is left of %s" % self._own)
        if self._heard is not None and heard > self._heard:
            self._refuse(owner, ", which lives: two trainings in one folder would remove each "
                         "other's checkpoints. Give this one another folder (--checkpoint-dir), end "
                         "that one, or take the folder from it with --take-folder")
        if self._heard is None:
            sys.stderr.write("[rank 0] the checkpoint folder %s belongs to %s, heard %d s ago: "
                             "waiting until it was silent for %d s\n"
                             % (self._folder, owner, silent, _SILENCE_S))
            sys.stderr.flush()
        self._heard = heard
        return False

    def _is_gone(self, owner):
        return (owner is not None and owner.machine != "" and owner.pid > 0
                and owner.machine == self._own.machine
                and process.is_gone(owner.pid, owner.started))

    def _refuse(self, owner, more):
        raise FolderTaken("the checkpoint folder %s belongs to %s%s" % (self._folder, owner, more))

    def _take(self, file):
        file.write(self._own)
        self._claimed = True
        if self._stop is None:
            self._stop = threading.Event()
            threading.Thread(target=self._refresh, args=(self._stop,), name="ddp-owner",
                             daemon=True).start()

    @contextlib.contextmanager
    def guard(self):
        """Returns a context in which no other process may change the folder. Raises FolderTaken if
        the folder belongs to another process."""
        if self._own is None:
            yield
            return
        while not self.try_claim():
            time.sleep(LOOK_S)
        with self._locked() as file:
            owner = file.read()
            if owner is not None and not owner.is_same_life(self._own):
                self._refuse(owner, ", and this is what is left of %s" % self._own)
            if owner is None or owner.released:
                self._take(file)  # the folder was recreated
            yield

    def release(self):
        """Call it when the training has ended well: then the next owner need not wait. A later save
        claims the folder again."""
        if not self._claimed:
            return
        self._claimed = False
        self._stop.set()
        self._stop = None
        try:
            with self._locked() as file:
                owner = file.read()
                if owner is not None and owner.is_same_life(self._own):
                    file.write(self._own, released=True)
        except CheckpointError as error:
            sys.stderr.write("[rank 0] warning: the checkpoint folder is not released: %s\n" % error)

    def _refresh(self, stop):
        """Runs on the thread. It does not take the lock, because a time that is too new does no
        harm."""
        while not stop.wait(_REFRESH_S):
            try:
                file = _OwnerFile(self._folder, os.O_RDONLY)
                try:
                    owner = file.read()
                    if owner is not None and owner.is_same_life(self._own):
                        file.touch()
                finally:
                    file.close()
            except (CheckpointError, OSError):
                pass  # the next save reports it
