"""Finds the state from which a training continues, the same for all ranks
(worker/src/restore/state_search.h)."""
import errno
import os
import time

from . import agent
from .errors import DamagedError, FormatError, StateUnreadableError, UnavailableError, quoted
from .folder import list_folder, set_aside_path
from .plan import MAX_STEP, number_in
from .safetensors import StateFile, is_gone, read_again

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class CheckpointSearch:
    """Runs on the source. Visits the files of some folders, highest step first. An unreadable
    file is not damaged: it ends the search, because it may be newer than the remaining ones.
    Exception: EIO, which a disk returns permanently for a lost block. Such a file is put off. It
    counts as damaged if it still returns EIO after an older file of its folder was read
    completely. It is never renamed."""

    def __init__(self, rank, folders, highest_step, folders_count, run="", renames=True):
        """`folders_count`: a folder that cannot be listed may hold the newest state; otherwise
        it counts only if nothing else is found. `run`: the id of this run, which goes into the
        new names of its damaged files. `renames`: rename damaged files; otherwise they stay."""
        self._rank, self._folders, self._run, self._renames = rank, folders, run, renames
        self._highest_step, self._folders_count = highest_step, folders_count
        self._warned_of = set()
        self.file = None  # opened by the last next()
        self.restart()

    def restart(self):
        self.close()
        self._files = None
        self._unlisted = None  # (path, error)
        self._put_off = []  # (step, path, error)
        self._pending = None  # (path, error): raised by the next call of next()
        self.rejected = []

    def close(self):
        if self.file is not None:
            self.file.close()
        self.file = None

    def _list(self):
        self._files = []
        for folder in self._folders:
            try:
                files, aside = list_folder(folder)
            except UnavailableError as error:
                self._unlisted = self._unlisted or (folder, error)
                continue
            self._files += [file for file in files if file[0] <= self._highest_step]
            self.rejected += [path + ": it was found damaged before" for path in aside]
        self._files.sort(key=lambda file: -file[0])  # stable: the folder named first comes first

    def next(self):
        """Opens the next file with a valid structure: self.file, or None if there are no more.
        Raises UnavailableError with the path in front; then only restart() helps."""
        if self._files is None:
            self._list()
        self._raise_pending()
        if self._unlisted and self._folders_count:
            _raise_with_path(*self._unlisted)
        self.close()
        while self._files:
            step, path = self._files.pop(0)
            if self._open(step, path):
                return self.file
            self._raise_pending()
        if self._put_off:
            _raise_with_path(*self._put_off[0][1:])
        if self._unlisted:
            _raise_with_path(*self._unlisted)
        return None

    def _raise_pending(self):
        pending, self._pending = self._pending, None
        if pending:
            _raise_with_path(*pending)

    def _open(self, step, path):
        try:
            self.file = StateFile(path)
            held = self.file.metadata.get("step", "")
            if held != str(step):
                self.close()
                raise FormatError("it holds step %s, not the one that its name says" % quoted(held))
            return True
        except UnavailableError as error:
            if not is_gone(error):  # if gone: removed since the listing
                self._put_it_off(step, path, error)
        except DamagedError as error:
            self._rename(step, path, str(error))
        except FormatError as error:
            self._skip(step, path, str(error))
        return False

    def put_off(self, error):
        """Some bytes of the last file could not be read, though its header could."""
        self._put_it_off(number_in(self.file.metadata, "step"), self.file.path, error)

    def _put_it_off(self, step, path, error):
        if error.code != errno.EIO:
            self._pending = path, error
            return
        self._put_off.append((step, path, error))
        if path not in self._warned_of:
            self._warned_of.add(path)
            agent.warn(self._rank, "checkpoint %s: %s. It is damaged if an older one can be read whole; "
                       "trying that" % (path, error))

    def has_put_off(self):
        return bool(self._put_off)

    def accept(self):
        """The last file was read completely. Reads the failed bytes of the files that were put
        off again. False: one of them is not damaged, and next() must be called again."""
        good = self.file.path
        for _, path, error in self._put_off:
            if os.path.dirname(path) != os.path.dirname(good):
                # A folder without a readable file says nothing about its disk.
                self._pending = path, error
                return False
            if not self._is_still_lost(path, error):
                return False
        for step, path, error in self._put_off:
            agent.say("CHECKPOINT_DAMAGED", "%d %s: %s" % (step, path, error))
            agent.warn(self._rank, "checkpoint %s is damaged: %s, again after an older one was read "
                       "whole. It is left as it is; going on with %s" % (path, error, good))
        self._put_off = []
        return True

    def _is_still_lost(self, path, error):
        try:
            read_again(path, error.offset, error.size)
        except UnavailableError as now:
            if now.code == errno.EIO:
                return True
            self._pending = path, now
            return False
        except FormatError:
            pass  # its length has changed: judge it again
        self.restart()
        return False

    def set_aside(self, reason):
        """The last file does not match its hashes."""
        self._rename(number_in(self.file.metadata, "step"), self.file.path, reason)

    def _rename(self, step, path, reason):
        if not self._renames:
            self._skip(step, path, "it is damaged: " + reason)
            return
        aside = set_aside_path(path, self._run)
        try:
            if os.path.lexists(aside):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(path, aside)
            done = "Renamed it to " + aside
        except OSError as error:
            done = "It cannot be renamed to %s (%s)" % (aside, error.strerror)
        self._reject(step, path, "checkpoint %s is damaged: %s. %s; looking for an older one"
                     % (path, reason, done), "it is damaged: " + reason)

    def _skip(self, step, path, reason):
        self._reject(step, path, "skipping checkpoint %s: %s. It is left as it is; looking for an older "
                     "one" % (path, reason), reason)

    def _reject(self, step, path, warning, reason):
        self.rejected.append("%s: %s" % (path, reason))
        if path not in self._warned_of:
            self._warned_of.add(path)
            agent.say("CHECKPOINT_DAMAGED", "%d %s: %s" % (step, path, reason))
            agent.warn(self._rank, warning)


def _raise_with_path(path, error):
    raise UnavailableError("%s: %s" % (path, error), error.code) from None


class WhereToLook:
    """Set on the source. Other ranks only need to know the source, and list their own folders."""

    def __init__(self, folders, patience_s, run):
        self.source = 0
        self.run = run
        self.folders, self.patience_s = folders, patience_s
        self.highest_step = MAX_STEP
        self.allows = lambda metadata: True
        self.folders_count = True
        # If nothing is found and training would start at step 0, damaged files of other nodes count
        # as well.
        self.looks_everywhere = False


class StateSearch:
    """All functions, also the constructor, are collectives. If a state that may be newer than
    all others is unavailable, reading is retried with pauses until the patience is over, but not
    for EACCES and EPERM. Then all ranks raise StateUnreadableError."""

    def __init__(self, ranks, where):
        self._ranks, self._where = ranks, where
        self._leads = ranks.rank == where.source
        self._waits_since = None
        self._pause_s = _FIRST_PAUSE_S
        self.rejected = []
        self.provisional = False  # files newer than the last one were put off: see accept()
        self._files = CheckpointSearch(ranks.rank, where.folders, where.highest_step,
                                       where.folders_count, where.run)
        if where.folders_count:
            self._ask_nodes(self._list_folders)

    def file(self):
        """The open file on the source; None on other ranks."""
        return self._files.file if self._leads else None

    def _ask_nodes(self, look):
        """Calls `look` on the source, and on each node's local rank 0, until no node has to
        wait. Returns each rank's answer. `look` may raise UnavailableError, with the path in
        front."""
        while True:
            said = None
            if self._ranks.local_rank == 0 or self._leads:
                try:
                    said = look()
                except UnavailableError as error:
                    said = self._postpone(str(error), error.code)
            everybody = self._ranks.gather_objects(said)
            for rank, what in enumerate(everybody):
                if isinstance(what, str) and what != "wait":
                    raise StateUnreadableError(what, rank)
            if "wait" not in everybody:
                return everybody

    def _list_folders(self):
        """The folder of any node may hold the newest state."""
        for folder in self._where.folders:
            try:
                list_folder(folder)
            except UnavailableError as error:
                _raise_with_path(folder, error)

    def _look_for_damaged(self):
        """On nodes without the source: their damaged files, if they have no valid one."""
        if self._leads:
            return None  # the source has looked already
        files = CheckpointSearch(self._ranks.rank, self._where.folders, self._where.highest_step,
                                 self._where.folders_count, renames=False)
        try:
            if files.next() is not None:
                return None
        finally:
            files.close()
        return ["rank %d: %s" % (self._ranks.rank, file) for file in files.rejected]

    def _postpone(self, text, code):
        """Waits, and returns "wait"; or returns why the search is over."""
        text = "rank %d: %s (errno %d, user id %d)" % (self._ranks.rank, text, code, os.geteuid())
        hopeless = code in (errno.EACCES, errno.EPERM)
        now = time.monotonic()
        first = self._waits_since is None
        if first:
            self._waits_since = now
        waited = now - self._waits_since
        if hopeless or waited >= self._where.patience_s:
            return (text + ("" if hopeless else ", for %.0f s" % waited)
                    + ". It may hold the newest state, so training does not begin without it. Make it "
                    "readable for this user and start again; or start with --start-anew, to begin at "
                    "step 0. Nothing was changed")
        if first:
            agent.warn(self._ranks.rank, text + ". It may hold the newest state: training waits for "
                       "it, at most %.0f s (--state-timeout)" % self._where.patience_s)
        time.sleep(min(self._pause_s, self._where.patience_s - waited))
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._files.restart()
        return "wait"

    def _propose(self):
        """Returns (result, data for all ranks), on the source."""
        try:
            file = self._files.next()
            while file is not None and not self._where.allows(file.metadata):
                file = self._files.next()
        except UnavailableError as error:
            said = self._postpone(str(error), error.code)
            return ("wait", None) if said == "wait" else ("over", said)
        if file is None:
            return "nothing", self._files.rejected
        tensors = [tuple(tensor) for tensor in file.tensors]
        return "found", (self._files.has_put_off(), (file.path, file.metadata, tensors))

    def next(self):
        """(path, metadata, tensors) of the newest allowed state that was not returned yet. None:
        there is none; then `rejected` lists the states that exist and cannot be loaded."""
        while True:
            what, said = self._ranks.broadcast_object(self._propose() if self._leads else None,
                                                      self._where.source)
            if what == "over":
                raise StateUnreadableError(said, self._where.source)
            if what == "nothing":
                self.rejected = said
                if self._where.looks_everywhere and not said:
                    for damaged in self._ask_nodes(self._look_for_damaged):
                        self.rejected += damaged or []
                return None
            if what == "found":
                self.provisional, found = said
                return found

    def put_off(self, error):
        """Some bytes of the last state could not be read."""
        if self._leads:
            self._files.put_off(error)

    def accept(self):
        """All ranks have read the last state completely. False: a newer one that was put off is
        not damaged. Call it if the state is provisional."""
        accepted = self._files.accept() if self._leads else None
        return self._ranks.broadcast_object(accepted, self._where.source)

    def set_aside(self, reason):
        if self._leads:
            self._files.set_aside(reason)
