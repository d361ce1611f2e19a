"""What ddprun.Checkpointer raises."""
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
    """The checkpoint folder belongs to another training that lives, or to a later generation."""


class StateUnreadableError(AgreedError):
    """A state is there and cannot be loaded; training does not begin at step 0 beside it."""


class FormatError(Exception):
    """A file that cannot be loaded. The text says why, without the path."""


class DamagedError(FormatError):
    """A file that is not whole any more."""


class UnavailableError(FormatError):
    """The system does not give the file out; it may be whole all the same. `code`: the errno. `offset`,
    `size`: of the bytes; none where the file does not open."""

    def __init__(self, text, code, offset=0, size=0):
        super().__init__(text)
        self.code, self.offset, self.size = code, offset, size

    def __reduce__(self):  # it is sent from rank to rank
        return UnavailableError, (str(self), self.code, self.offset, self.size)


def printable(text):
    """Text that another user may have written, fit for one line of a terminal
    (worker/contract/without_controls.h)."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", "?", text)


def quoted(text):
    """Text of a file, fit for a message."""
    shown = ascii(text)
    return shown if len(shown) <= 102 else shown[:100] + "...'"
