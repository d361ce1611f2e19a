"""The exceptions of ddprun.Checkpointer."""
import re


class CheckpointError(RuntimeError):
    """A state cannot be saved, or does not fit this program."""


class AgreedError(CheckpointError):
    """At least one rank failed, and all ranks raise this error with the same text. `failing_rank`
    is the lowest rank that failed."""

    def __init__(self, text, failing_rank):
        super().__init__(text)
        self.failing_rank = failing_rank


class FolderTakenError(AgreedError):
    """The checkpoint folder belongs to another running training, or to a later generation of this
    training. ddprun ends the job and does not restart it, unless the program catches the error."""


class StateUnreadableError(AgreedError):
    """A state exists, but it cannot be loaded. Training does not begin at step 0 instead. ddprun
    ends the job and does not restart it, unless the program catches the error."""


class FormatError(Exception):
    """A file cannot be loaded. The text says why, without the path."""


class DamagedError(FormatError):
    """A file is damaged."""


class UnavailableError(FormatError):
    """The system cannot open or read the file, which may be intact, or cannot list the folder.
    `code`: the errno. `offset` and `size`: of the bytes that could not be read; otherwise 0."""

    def __init__(self, text, code, offset=0, size=0):
        super().__init__(text)
        self.code, self.offset, self.size = code, offset, size

    def __reduce__(self):  # it is sent from rank to rank
        return UnavailableError, (str(self), self.code, self.offset, self.size)


def printable(text):
    """Replaces control characters, so that text of another user is safe for one line of a terminal
    (worker/contract/without_controls.h)."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", "?", text)


def quoted(text):
    """Returns text of a file in a form that is safe for a message: quoted, ASCII, cut if long."""
    shown = ascii(text)
    return shown if len(shown) <= 102 else shown[:100] + "...'"
