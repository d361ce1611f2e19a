"""Writes files so that each is either complete or absent, even if the process or the machine dies
meanwhile."""
import errno
import os
import re
import time

from . import process
from .errors import CheckpointError

_TEMPORARY = ".tmp"
_ABANDONED_AFTER_S = 24 * 3600
_WRITE_BYTES = 1 << 20  # for each write; for larger ones the kernel would allocate large blocks
_NO_SUCH_CALL = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)

_in_progress = set()  # temporary files of this process


def fail(what, path, error):
    raise CheckpointError("cannot %s %s: %s" % (what, path, error.strerror)) from None


def write_all(file, pieces, path):
    """Writes arrays of ctypes and bytes to a descriptor."""
    for piece in pieces:
        memory = memoryview(piece).cast("B") if len(piece) else memoryview(b"")
        while memory:
            try:
                memory = memory[os.write(file, memory[:_WRITE_BYTES]):]
            except OSError as error:
                fail("write", path, error)


def sync_folder(folder):
    file = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(folder):
    """Makes a folder and its parents. Syncs the entry of each if its parent may be read."""
    if not folder or os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folder(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass
    except OSError as error:
        fail("create directory", folder, error)
    try:
        sync_folder(parent)
    except OSError:
        pass  # the folder exists, but may be gone after a power failure


def _pid_scope():
    return "%s-%s-" % (process.host_name(), process.pid_namespace())


def _write_temporary(path, pieces):
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    except OSError as error:
        fail("open", path, error)
    try:
        write_all(file, pieces, path)
        os.fsync(file)
    except OSError as error:
        fail("sync", path, error)
    finally:
        os.close(file)


def _is_same_file(one, other):
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False


def move_to_free(temporary, path):
    """Gives `temporary` the name `path` if no file has it. Otherwise changes nothing and returns
    False. Atomic on file systems with link(2), such as NFS. On others the caller must ensure that
    nobody else makes files."""
    try:
        os.link(temporary, path)
    except OSError as error:
        # A server that got the request twice may answer EEXIST for its own success.
        if error.errno == errno.EEXIST and not _is_same_file(temporary, path):
            return False
        if error.errno in _NO_SUCH_CALL:
            if os.path.lexists(path):
                return False
            os.rename(temporary, path)
            return True
        if error.errno != errno.EEXIST:
            fail("link to", path, error)
    os.unlink(temporary)
    return True


def write_durably(folder, name, pieces, publish):
    """Writes and syncs a temporary file, calls `publish(temporary, path)`, which must rename it,
    and syncs the folder. After an error it removes the temporary file and raises
    CheckpointError."""
    make_folder(folder)
    path = os.path.join(folder, name)
    temporary = "%s.%s%d%s" % (path, _pid_scope(), os.getpid(), _TEMPORARY)
    _in_progress.add(temporary)
    try:
        _write_temporary(temporary, pieces)
        publish(temporary, path)
        sync_folder(folder)
    except OSError as error:
        fail("publish", path, error)
    finally:
        try:
            os.unlink(temporary)
        except OSError:
            pass  # it was moved, or never existed
        _in_progress.discard(temporary)


def _is_abandoned(path):
    try:
        if time.time() - os.stat(path).st_mtime > _ABANDONED_AFTER_S:
            return True
    except OSError:
        return False
    writer = re.fullmatch(r".*\.%s(\d+)%s" % tuple(map(re.escape, (_pid_scope(), _TEMPORARY))), path)
    if not writer:
        return False
    pid = int(writer.group(1))
    return path not in _in_progress if pid == os.getpid() else not process.exists(pid)


def remove_abandoned(folder, prefix):
    """Removes temporary files that no process is writing any more, as far as this process can
    tell."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith(prefix) and name.endswith(_TEMPORARY) and _is_abandoned(path):
            try:
                os.unlink(path)
            except OSError:
                pass
