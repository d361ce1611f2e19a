"""Saves and restores torch's default generators of all ranks, as text: in hex, by rank."""
import torch

from .errors import CheckpointError
from .safetensors import memory_of

_CPU = "rng"
_GPU = "rng_cuda"


def _gathered(ranks, state):
    return ",".join(bytes(memory).hex() for memory in map(memory_of, ranks.gather_bytes(state.cpu())))


def export_generators(ranks, device):
    """Returns the generators of all ranks as metadata. A collective. `device`: the model's."""
    texts = {_CPU: _gathered(ranks, torch.get_rng_state())}
    if device.type == "cuda":
        texts[_GPU] = _gathered(ranks, torch.cuda.get_rng_state(device))
    return texts


def _own(ranks, metadata, key):
    """Returns this rank's generator. None: the state has none for this rank."""
    states = metadata.get(key, "").split(",")
    if ranks.rank >= len(states) or not states[ranks.rank]:
        return None
    try:
        return torch.tensor(list(bytes.fromhex(states[ranks.rank])), dtype=torch.uint8)
    except ValueError:
        raise CheckpointError("the generator state in the checkpoint is not hexadecimal") from None


def restore_generators(ranks, metadata, device):
    """Restores this rank's generators. If the state has none for this rank, it keeps its own."""
    state = _own(ranks, metadata, _CPU)
    if state is not None:
        torch.set_rng_state(state)
    state = _own(ranks, metadata, _GPU) if device.type == "cuda" else None
    if state is not None:
        torch.cuda.set_rng_state(state, device)
