"""Finds the state from which a training continues. It is the same for all ranks. The *source* is
the rank that has it (worker/src/restore/state_search.h)."""
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
    """Visits the files of some folders of this node, highest step first. A file that cannot be
    read is not damaged. It ends the search, because it may be newer than the remaining files.
    There is one exception: EIO, which a disk always returns for a lost block. A file with EIO is
    put off: the search goes on with older files. If it still gives EIO after an older file of
    its folder was read completely, it counts as damaged. It is never renamed."""

    def __init__(self, rank, folders, highest_step, folders_count, run="", renames=True,
                 lowest_step=0):
        """`folders_count`: True if a folder that cannot be listed may hold the newest state. False:
        such a folder is an error only if nothing else is found. `run`: the id of this run, for
        the new names of its damaged files. `renames`: whether damaged files are renamed."""
        self._rank, self._folders, self._run, self._renames = rank, folders, run, renames
        self._steps, self._folders_count = range(lowest_step, highest_step + 1), folders_count
        # True: the search is for one step, or for none. No older file of the search can prove that a
        # file with EIO is damaged, so such a file counts as not found.
        self._for_one_step = lowest_step > 0 or highest_step < 0
        self._warned_of = set()
        self.file = None  # opened by the last next()
        self.restart()

    def restart(self):
        self.close()
        self._files = None
        self._unlisted = None  # (path, error)
        self._put_off = []  # (step, path, error)
        self._pending = None  # (path, error): next() raises it
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
            self._files += [file for file in files if file[0] in self._steps]
            if not self._for_one_step:
                self.rejected += [path + ": it was found damaged before" for path in aside]
        self._files.sort(key=lambda file: -file[0])  # stable: keeps the order of the folders

    def next(self):
        """Opens the next file with a valid structure, and returns it (self.file). None: there is no
        further one. Raises UnavailableError, whose text begins with the path. After that only
        restart() may be called."""
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
        if self._put_off and not self._for_one_step:
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
            if not is_gone(error):  # gone: another process has removed it since the listing
                self._put_it_off(step, path, error)
        except DamagedError as error:
            self._rename(step, path, str(error))
        except FormatError as error:
            self._skip(step, path, str(error))
        return False

    def put_off(self, error):
        """Call it if the header of the last file could be read, but some later bytes could not."""
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
        """Call it when the last file was read completely. Tries again to read the failed bytes of
        the files that were put off. Returns False if one of these files may be undamaged: then
        next() must be called again."""
        good = self.file.path
        for _, path, error in self._put_off:
            if os.path.dirname(path) != os.path.dirname(good):
                # No file of this folder was read, so it is not known whether its disk works.
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
            pass  # its length has changed: look at it again
        self.restart()
        return False

    def set_aside(self, reason):
        """Call it if the last file does not match its hashes."""
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
    """Where to look. Each rank has its own `folders`. `allows` counts only on the source. All other
    values are the same on all ranks."""

    def __init__(self, folders, patience_s, run):
        self.source = 0
        self.run = run
        self.folders, self.patience_s = folders, patience_s
        self.lowest_step, self.highest_step = 0, MAX_STEP
        self.allows = lambda metadata: True
        self.folders_count = True
        # True: if nothing is found and training would begin at step 0, damaged files of other nodes
        # count too.
        self.looks_everywhere = False
        # True, with looks_everywhere: a complete file that only another node has counts too.
        self.counts_whole_files = False


class StateSearch:
    """All functions except file(), put_off() and set_aside() are collectives, also the
    constructor. If a state that may be newer than all others cannot be read, the search tries
    again, with pauses, for `patience_s`. Then all ranks raise StateUnreadableError. For EACCES and
    EPERM they raise it at once."""

    def __init__(self, ranks, where):
        self._ranks, self._where = ranks, where
        self._leads = ranks.rank == where.source
        self._waits_since = None
        self._pause_s = _FIRST_PAUSE_S
        self.rejected = []
        self.provisional = False  # True: files newer than the last one were put off: see accept()
        self._files = CheckpointSearch(ranks.rank, where.folders, where.highest_step,
                                       where.folders_count, where.run,
                                       lowest_step=where.lowest_step)
        if where.folders_count:
            self._ask_nodes(self._list_folders)

    def file(self):
        """Returns the open file on the source, and None on other ranks."""
        return self._files.file if self._leads else None

    def _ask_nodes(self, look):
        """Calls `look` on the source and on each node's local rank 0. Repeats that until no node
        has to wait. Returns the answer of each rank. `look` may raise UnavailableError, whose
        text begins with the path."""
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
        """Runs on nodes without the source. Returns the damaged files of the node, if it has no
        valid file."""
        if self._leads:
            return None  # the source has looked already
        files = CheckpointSearch(self._ranks.rank, self._where.folders, self._where.highest_step,
                                 self._where.folders_count, renames=False)
        try:
            found = files.next()
            if found is not None:
                if not self._where.counts_whole_files:
                    return None
                return ["rank %d: %s: it is not in the folder of rank 0"
                        % (self._ranks.rank, found.path)]
        finally:
            files.close()
        return ["rank %d: %s" % (self._ranks.rank, file) for file in files.rejected]

    def _postpone(self, text, code):
        """Waits and returns "wait"; or returns the reason why the search ends."""
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
        """Runs on the source. Returns (result, data for all ranks)."""
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
        """Returns (path, metadata, tensors) of the newest allowed state that it has not returned
        yet. None: there is none. Then `rejected` lists the states that exist but cannot be
        loaded."""
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
        """Call it if some bytes of the last state could not be read."""
        if self._leads:
            self._files.put_off(error)

    def accept(self):
        """Call it if the last state is provisional and all ranks have read it completely. Returns
        False if a newer state that was put off may be undamaged: then call next() again."""
        accepted = self._files.accept() if self._leads else None
        return self._ranks.broadcast_object(accepted, self._where.source)

    def set_aside(self, reason):
        if self._leads:
            self._files.set_aside(reason)
