"""Converts the state of a learning rate scheduler to texts and back.

`lr_steps` is the number of its steps, as in the C++ library. `lr_python`, a JSON object, has the
scheduler's state_dict(). Some values JSON cannot hold, or would change: functions, tuples, keys
that are not text. They are not saved: the program must set them again. If the scheduler changes
the momenta of the parameter groups (`cycle_momentum`), `lr_momentum` has them.
"""
import json

from .errors import CheckpointError

STEPS = "lr_steps"
_PYTHON = "lr_python"
_MOMENTUM = "lr_momentum"
_MOMENTA = ("momentum", "betas")  # in a parameter group


def _plain(value):
    """Returns the part of a state that JSON can hold unchanged."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()
                if isinstance(key, str) and _is_kept(entry)}
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return [_plain(entry) for entry in value]
    return value


def _is_kept(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value)
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return True
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def export_schedule(scheduler):
    """Returns the state of a scheduler as metadata."""
    texts = {STEPS: str(scheduler.last_epoch), _PYTHON: json.dumps(_plain(scheduler.state_dict()))}
    if getattr(scheduler, "cycle_momentum", False):
        texts[_MOMENTUM] = json.dumps([{name: group[name] for name in _MOMENTA if name in group}
                                       for group in scheduler.optimizer.param_groups])
    return texts


def check_schedule(metadata):
    """Raises CheckpointError unless a scheduler can continue from this metadata."""
    if STEPS not in metadata:
        raise CheckpointError("it holds no steps of a learning rate scheduler")
    if not metadata[STEPS].isdecimal():
        raise CheckpointError("its count of the scheduler's steps is no number: " + metadata[STEPS])


def _overlaid(own, saved):
    """Returns a scheduler's own state, with the saved values in place of its own."""
    if isinstance(own, dict) and isinstance(saved, dict):
        return {**own, **{key: _overlaid(own.get(key), entry) for key, entry in saved.items()}}
    if isinstance(own, list) and isinstance(saved, list) and len(own) == len(saved):
        return [_overlaid(mine, theirs) for mine, theirs in zip(own, saved)]
    return saved


def restore_schedule(scheduler, metadata, rates):
    """Puts the saved state into the scheduler. `rates`: the restored learning rates."""
    momenta = json.loads(metadata.get(_MOMENTUM, "[]"))
    for group, saved in zip(scheduler.optimizer.param_groups, momenta):
        group.update({name: type(group[name])(value) for name, value in saved.items()})
    if _PYTHON in metadata:
        scheduler.load_state_dict(_overlaid(scheduler.state_dict(), json.loads(metadata[_PYTHON])))
        return
    steps = int(metadata[STEPS])
    scheduler.last_epoch = steps
    scheduler._step_count = steps + 1  # the constructor of a scheduler makes one step itself
    scheduler._last_lr = list(rates)
