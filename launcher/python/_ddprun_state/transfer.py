"""Sends the bytes of a state from the rank that has it to the tensors of all ranks."""
import torch

from .errors import AgreedError, DamagedError, UnavailableError
from .safetensors import hash_text, memory_of

_CHUNK_BYTES = 16 << 20


class _Sink:
    """Puts the bytes of a state into the tensors of one rank. The bytes come in order."""

    def __init__(self, tensors, places):
        """`tensors`: StoredTensors in the order of their bytes. `places`: for each of them the
        tensor that receives the bytes, or None."""
        self._tensors, self._places = tensors, places
        self._next = 0
        self._bytes = None  # bytes of the current tensor: flat, on the CPU
        self.damaged = ""  # the first tensor with a wrong hash

    def take(self, offset, chunk):
        """`chunk`: a tensor of bytes that begins at `offset`."""
        end = offset + len(chunk)
        while self._next < len(self._tensors):
            stored = self._tensors[self._next]
            if self._bytes is None:
                self._bytes = self._begin(stored)
            first, last = max(offset, stored.offset), min(end, stored.offset + stored.size)
            if last > first:
                self._bytes[first - stored.offset:last - stored.offset] = (
                    chunk[first - offset:last - offset])
            if stored.offset + stored.size > end:
                return
            self._finish(stored)
            self._next += 1

    def _begin(self, stored):
        place = self._places[self._next]
        if place is not None and place.device.type == "cpu" and place.is_contiguous():
            return place.reshape(-1).view(torch.uint8)
        return torch.empty(stored.size, dtype=torch.uint8)

    def _finish(self, stored):
        place = self._places[self._next]
        if not self.damaged and hash_text(memory_of(self._bytes)) != stored.hash:
            self.damaged = stored.name
        if place is not None and not (place.device.type == "cpu" and place.is_contiguous()):
            place.copy_(self._bytes.view(place.dtype).reshape(place.shape))
        self._bytes = None


def transfer(ranks, source, file, tensors, places):
    """A collective. `source`: the rank that has the file. `file`: its StateFile; None on other
    ranks. Returns None on all ranks if the bytes of every rank match the hashes. Otherwise
    returns the FormatError of the file. Raises AgreedError if the file is valid but a rank
    received other bytes."""
    size = sum(tensor.size for tensor in tensors)
    sink = _Sink(tensors, places)
    fault = None
    chunk = torch.empty(min(size, _CHUNK_BYTES), dtype=torch.uint8)
    for offset in range(0, max(size, 1), _CHUNK_BYTES):
        part = chunk[:min(_CHUNK_BYTES, size - offset)]
        if ranks.rank == source and fault is None:
            try:
                file.read(offset, memory_of(part))
            except (DamagedError, UnavailableError) as error:
                fault = error  # the others still expect the rest, so send it; its hashes are wrong
        if len(part):
            ranks.broadcast(part, source)
        sink.take(offset, part)
    everybody = ranks.gather_objects((fault, sink.damaged))
    fault, damaged = everybody[source]
    if fault is not None or damaged:
        return fault or DamagedError("tensor %s has a wrong hash" % damaged)
    for rank, (_, damaged) in enumerate(everybody):
        if damaged:
            raise AgreedError("rank %d: after the restore, %s is not what the state's hash says, "
                              "though the file of rank %d is good" % (rank, damaged, source), rank)
    return None
