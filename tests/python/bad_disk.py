"""A disk on which some files cannot be read."""
import errno
import os
import unittest.mock


class BadDisk:
    """A context. While it is entered, the first `times` calls of os.preadv in this process that reach a lost byte
    give an error. `lost`: from path to byte. It does not affect other ways to read."""

    def __init__(self, lost, code=errno.EIO, times=1 << 30):
        self._lost, self._code, self._times, self._preadv = lost, code, times, os.preadv
        self._patch = unittest.mock.patch.object(os, "preadv", self._read)

    def _read(self, file, buffers, offset, *more):
        lost = self._lost.get(os.readlink("/proc/self/fd/%d" % file))
        if self._times > 0 and lost is not None and offset + sum(map(len, buffers)) > lost:
            self._times -= 1
            raise OSError(self._code, os.strerror(self._code))
        return self._preadv(file, buffers, offset, *more)

    def __enter__(self):
        self._patch.start()
        return self

    def __exit__(self, *exception):
        self._patch.stop()
