"""A copy of a state in separate memory, which is written to files while the training continues."""
import torch

from .safetensors import file_order


class Image:
    """`tensors`: [(name, tensor)] in the order of a file, on the CPU and contiguous. `metadata`:
    everything except hashes and version."""

    def __init__(self, step, tensors, metadata):
        self.step, self.tensors, self.metadata = step, tensors, metadata

    def values(self):
        return [tensor for _, tensor in self.tensors]


class Staging:
    """Memory for one copy of a state. It is used again for the next copy, because the first access
    to new memory costs far more than the copy. The memory for tensors on a GPU is pinned."""

    def __init__(self):
        self._held = {}

    def copy(self, step, tensors, metadata):
        """Returns an Image of the current values. The previous Image becomes invalid."""
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
