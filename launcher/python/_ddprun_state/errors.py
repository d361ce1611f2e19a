"""The exceptions of ddprun.Checkpointer."""
import re


class CheckpointError(RuntimeError):
    """A state cannot be saved, or does not fit this program."""


class AgreedError(CheckpointError):
    """At least one rank failed, and all ranks raise this with the same text. `failing_rank`: the
    lowest rank that failed."""

    def __init__(self, text, failing_rank):
        super().__init__(text)
        self.failing_rank = failing_rank


class FolderTakenError(AgreedError):
    """The checkpoint folder belongs to another live training, or to a later generation."""


class StateUnreadableError(AgreedError):
    """A state exists and cannot be loaded. Training does not start at step 0 in this case."""


class FormatError(Exception):
    """A file cannot be loaded. The text says why, without the path."""


class DamagedError(FormatError):
    """A file is damaged."""


class UnavailableError(FormatError):
    """The system does not return the file, which may be intact. `code`: the errno. `offset`,
    `size`: of the bytes; None if the file does not open."""

    def __init__(self, text, code, offset=0, size=0):
        super().__init__(text)
        self.code, self.offset, self.size = code, offset, size

    def __reduce__(self):  # it is sent from rank to rank
        return UnavailableError, (str(self), self.code, self.offset, self.size)


def printable(text):
    """Makes text of another user safe for one line of a terminal
    (worker/contract/without_controls.h)."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", "?", text)


def quoted(text):
    """Makes text of a file safe for a message."""
    shown = ascii(text)
    return shown if len(shown) <= 102 else shown[:100] + "...'"
