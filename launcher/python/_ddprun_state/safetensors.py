"""The files of states: safetensors (https://github.com/huggingface/safetensors). The metadata also
has hashes of each tensor and of the header, as in worker/src/formats/safetensors.h."""
import collections
import ctypes
import errno
import json
import os
import stat

import torch

from .errors import DamagedError, FormatError, UnavailableError, quoted
from .xxh3 import hash_text

FORMAT_KEY = "ddprun_format"
FORMAT_VERSION = "1"
_METADATA = "__metadata__"
_HASHES = "xxh3"
_HEADER_HASH = "header_xxh3"
_PREFIX_BYTES = 8
_MAX_HEADER_BYTES = 100000000  # the format's own limit

# dtypes by their name in the format. Older versions of torch do not have all of them.
DTYPES = {name: getattr(torch, dtype) for name, dtype in (
    ("F64", "float64"), ("F32", "float32"), ("F16", "float16"), ("BF16", "bfloat16"),
    ("I64", "int64"), ("I32", "int32"), ("I16", "int16"), ("I8", "int8"), ("U8", "uint8"),
    ("BOOL", "bool"), ("C64", "complex64"), ("U16", "uint16"), ("U32", "uint32"), ("U64", "uint64"),
    ("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")) if hasattr(torch, dtype)}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

# One tensor of a file. `offset`: where its bytes begin, from the end of the header. `size`: bytes.
StoredTensor = collections.namedtuple("StoredTensor", "name dtype shape hash offset size")


def element_size(dtype):
    return torch.empty((), dtype=DTYPES[dtype]).element_size()


def dtype_name(tensor):
    """Returns the format's name of the tensor's dtype. None: the format does not have it."""
    return _NAMES.get(tensor.dtype)


def memory_of(tensor):
    """Returns the bytes of a tensor, not copied. The tensor must be contiguous and on the CPU, and
    must outlive the result."""
    size = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * size).from_address(tensor.data_ptr() if size else id(tensor))


def _dump(value):
    """Formats JSON exactly like nlohmann::json, because a header's hash is computed from this
    text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _header_hash(header):
    metadata = {key: text for key, text in header[_METADATA].items() if key != _HEADER_HASH}
    return hash_text(_dump({**header, _METADATA: metadata}).encode())


def file_order(tensors):
    """Returns [(name, tensor)] in the order of their bytes in a file: those with large elements
    first, so that all are aligned."""
    return sorted(tensors, key=lambda item: (-item[1].element_size(), item[0].encode()))


def build_header(tensors, metadata):
    """Returns the bytes of a file that come before the bytes of `tensors`. `tensors`: [(name,
    tensor)] in file_order(), fit for memory_of()."""
    header, hashes, offset = {}, {}, 0
    for name, tensor in tensors:
        memory = memory_of(tensor)
        header[name] = {"dtype": dtype_name(tensor), "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(memory)]}
        hashes[name] = hash_text(memory)
        offset += len(memory)
    header[_METADATA] = {**metadata, FORMAT_KEY: FORMAT_VERSION, _HASHES: _dump(hashes)}
    header[_METADATA][_HEADER_HASH] = _header_hash(header)
    text = _dump(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_PREFIX_BYTES, "little") + text


def _object(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FormatError("its header says something twice")
    return result


# The errors that may occur while a malformed header is read.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, RecursionError, FormatError)


def _is_size(value):
    return type(value) is int and value >= 0


def _check_tensor(name, entry):
    """Raises FormatError unless `entry` is a tensor in the format's sense."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError("tensor %s lacks dtype, shape or data_offsets, or has more"
                          % quoted(name))
    if entry["dtype"] not in DTYPES:
        raise FormatError("tensor %s has the dtype %s, which this torch does not have"
                          % (quoted(name), quoted(str(entry["dtype"]))))
    for field in ("shape", "data_offsets"):
        if not isinstance(entry[field], list) or not all(map(_is_size, entry[field])):
            raise FormatError("tensor %s has no good %s" % (quoted(name), field))
    if len(entry["data_offsets"]) != 2:
        raise FormatError("tensor %s has no good data_offsets" % quoted(name))


def _open(path):
    try:
        # O_NONBLOCK: otherwise the open of a FIFO without a writer would block.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnavailableError("cannot open it: " + error.strerror, error.errno) from None


def _read_all(file, offset, memory):
    """Fills `memory` with the bytes at `offset` of a descriptor. Raises UnavailableError,
    DamagedError."""
    begin, end = offset, offset + len(memory)
    while begin < end:
        try:
            got = os.preadv(file, [memory[begin - offset:]], begin)
        except OSError as error:
            raise UnavailableError("cannot read its bytes %d to %d: %s" % (begin, end, error.strerror),
                                   error.errno, begin, end - begin) from None
        if got == 0:
            raise DamagedError("it has become too short: it ends at byte %d" % begin)
        begin += got


def read_again(path, offset, size):
    """Reads bytes that could not be read before. Returns if that succeeds now; otherwise raises
    UnavailableError or DamagedError."""
    file = _open(path)
    try:
        _read_all(file, offset, memoryview(bytearray(size)))
    finally:
        os.close(file)


class StateFile:
    """An open file whose header has been read and checked. The hashes of its tensors have not been
    checked. The constructor raises FormatError."""

    def __init__(self, path):
        self.path = path
        self._reopened = False
        self._file = _open(path)
        try:
            self._parse()
        except BaseException:
            self.close()
            raise

    def close(self):
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _parse(self):
        facts = os.fstat(self._file)
        if not stat.S_ISREG(facts.st_mode):
            raise FormatError("it is not a regular file")
        if facts.st_size < _PREFIX_BYTES:
            raise DamagedError("it is too short (%d bytes)" % facts.st_size)
        size = int.from_bytes(self._bytes(0, _PREFIX_BYTES), "little")
        if size > min(_MAX_HEADER_BYTES, facts.st_size - _PREFIX_BYTES):
            raise DamagedError("it is too short for its header of %d bytes, or no safetensors file"
                               % size)
        self._data = _PREFIX_BYTES + size
        header = self._header(self._bytes(_PREFIX_BYTES, size))
        self.metadata = header.pop(_METADATA)
        self.tensors = self._tensors(header)
        self.size = sum(tensor.size for tensor in self.tensors)
        if self._data + self.size != facts.st_size:
            raise DamagedError("its tensors have %d bytes, but the file has %d that follow its "
                               "header" % (self.size, facts.st_size - self._data))

    def _header(self, text):
        """Reads and checks the header. If it cannot be read, or has a wrong hash, the file is
        damaged, because ddprun writes no such header."""
        try:
            header = json.loads(text, object_pairs_hook=_object)
            metadata = header[_METADATA]
            version = metadata.get(FORMAT_KEY, "missing")
            whole = metadata.get(_HEADER_HASH) == _header_hash(header)
        except _UNREADABLE:
            raise DamagedError("its header cannot be read") from None
        if version != FORMAT_VERSION:
            raise FormatError("its format version is %s, expected %s"
                              % (quoted(str(version)), FORMAT_VERSION))
        if not whole:
            raise DamagedError("its header has a wrong hash")
        if not all(isinstance(value, str) for value in metadata.values()):
            raise FormatError("its metadata has a value that is no text")
        return header

    def _tensors(self, header):
        hashes = json.loads(self.metadata.get(_HASHES, "{}"))
        tensors, end = [], 0
        for name, entry in header.items():
            _check_tensor(name, entry)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, after = entry["data_offsets"]
            size = element_size(entry["dtype"])
            for extent in entry["shape"]:
                size *= extent
            if begin != end or after - begin != size or name not in hashes:
                raise DamagedError("tensor %s lies where it cannot, or has no hash" % quoted(name))
            tensors.append(StoredTensor(name, entry["dtype"], tuple(entry["shape"]), hashes[name],
                                        begin, size))
            end = after
        return tensors

    def _bytes(self, offset, size):
        data = bytearray(size)
        self._read(offset, memoryview(data))
        return bytes(data)

    def _read(self, offset, memory):
        try:
            _read_all(self._file, offset, memory)
        except UnavailableError as error:
            # After its own restart, a file server may know the file only by its name.
            if error.code != errno.ESTALE or self._reopened:
                raise
            self._reopened = True
            self.close()
            self._file = _open(self.path)
            _read_all(self._file, offset, memory)

    def read(self, offset, memory):
        """Fills an array of ctypes with the bytes at `offset` from the end of the header."""
        if len(memory):
            self._read(self._data + offset, memoryview(memory).cast("B"))


def read_metadata(path):
    """Returns the metadata of a file. None: the file cannot be read."""
    try:
        file = StateFile(path)
    except FormatError:
        return None
    file.close()
    return file.metadata


def header_metadata(path):
    """Returns the metadata of a file whose header matches its hash, even if the rest of the file is
    damaged. None: the header does not match, or cannot be read."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(_PREFIX_BYTES), "little")
            if size > _MAX_HEADER_BYTES:
                return None
            header = json.loads(file.read(size), object_pairs_hook=_object)
        metadata = header[_METADATA]
        return metadata if metadata.get(_HEADER_HASH) == _header_hash(header) else None
    except (OSError, *_UNREADABLE):
        return None


def is_gone(error):
    return error.code == errno.ENOENT
