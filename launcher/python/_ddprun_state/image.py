"""A copy of a state in memory of its own, while the training goes on: what is written to files."""
import torch

from .safetensors import file_order


class Image:
    """`tensors`: [(name, tensor)] in the order of a file, on the CPU and contiguous; `metadata`: all
    of it but hashes and version."""

    def __init__(self, step, tensors, metadata):
        self.step, self.tensors, self.metadata = step, tensors, metadata

    def values(self):
        return [tensor for _, tensor in self.tensors]


class Staging:
    """Memory for one copy, kept from one to the next: what is touched for the first time costs far
    more than the copy. On a GPU's behalf it is pinned."""

    def __init__(self):
        self._held = {}

    def copy(self, step, tensors, metadata):
        """An Image of the values of now; the one before it is no more."""
        copies = []
        for name, tensor in file_order(tensors):
            held = self._held.get(name)
            if held is None or (held.shape, held.dtype) != (tensor.shape, tensor.dtype):
                held = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
            copies.append((name, held.copy_(tensor, non_blocking=True)))
        if any(tensor.is_cuda for _, tensor in tensors):
            torch.cuda.current_stream().synchronize()
        self._held = dict(copies)
        return Image(step, copies, metadata)
