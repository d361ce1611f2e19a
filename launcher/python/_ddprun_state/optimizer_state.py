"""Converts the state of an optimizer to named tensors and back.

Names are `<index of the parameter, over all groups>.<field>`, for example `0.exp_avg`, as in the
C++ library. Counts become int64 tensors and other numbers float64 tensors, both without
dimensions. The tensors of a list have the names `<field>.0` and so on. The metadata entry
`optim_kinds`, a JSON object, has the Python types of fields that the C++ library does not know.
Files of the C++ library do not have this entry and do not need it.
"""
import collections
import json

import torch

from .errors import CheckpointError

KINDS = "optim_kinds"
# Fields of the C++ library's optimizers; torch.optim uses the same names.
_COMMON_KINDS = {"step": "step", "func_evals": "int", "n_iter": "int", "t": "float",
                 "prev_loss": "float", "old_dirs": "list", "old_stps": "list", "ro": "list"}
_SCRATCH = ("al",)  # fields that LBFGS uses only during a step
# Optimizers whose state consists of tensors with the shape of their parameter.
_LIKE_PARAMETERS = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop,
                    torch.optim.Adagrad)


def parameters_of(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _kind(name, value):
    """Returns how a value is saved. None: it cannot be saved."""
    if name == "step" and torch.is_tensor(value) and value.dim() == 0:
        return "step" if float(value).is_integer() else "tensor"
    if torch.is_tensor(value):
        return "tensor"
    if type(value) is int:
        return "step" if name == "step" else "int"
    if type(value) is float:
        return "float"
    if isinstance(value, list) and all(map(torch.is_tensor, value)):
        return "list"
    return None


def _tensors_of(name, kind, value):
    if kind in ("int", "step"):
        return [(name, torch.tensor(int(value), dtype=torch.int64))]
    if kind == "float":
        return [(name, torch.tensor(value, dtype=torch.float64))]
    if kind == "list":
        return [("%s.%d" % (name, i), tensor) for i, tensor in enumerate(value)]
    return [(name, value)]


def export_state(optimizer):
    """Returns ([(name, tensor)], metadata). Tensors of the optimizer are not copied; numbers become
    new tensors. Raises CheckpointError for values that a file cannot hold."""
    tensors, kinds = [], {}
    for index, parameter in enumerate(parameters_of(optimizer)):
        for name, value in optimizer.state.get(parameter, {}).items():
            if value is None or name in _SCRATCH:
                continue
            kind = _kind(name, value)
            if kind is None or kinds.setdefault(name, kind) != kind:
                raise CheckpointError("the optimizer's state %r of parameter %d cannot be saved: it "
                                      "is a %s" % (name, index, type(value).__name__))
            tensors += _tensors_of("%d.%s" % (index, name), kind, value)
    kinds = {name: kind for name, kind in kinds.items()
             if kind != _COMMON_KINDS.get(name, "tensor")}
    return tensors, {KINDS: json.dumps(kinds)} if kinds else {}


class OptimizerRestore:
    """The plan to put a state into an optimizer. The plan changes nothing yet.

    `stored`: {name: (shape, dtype)}. Raises CheckpointError if it does not fit this optimizer.
    """

    def __init__(self, optimizer, stored, metadata):
        self._optimizer = optimizer
        self._parameters = parameters_of(optimizer)
        self._kinds = {**_COMMON_KINDS, **json.loads(metadata.get(KINDS, "{}"))}
        self._stored = stored
        self._places = {}  # by name: the tensor that receives the bytes
        for name, (shape, dtype) in stored.items():
            self._check(name, shape, dtype)

    def _split(self, name):
        """Returns the parameter's index, the field, and the index in a list."""
        index, _, field = name.partition(".")
        field, _, place = field.partition(".")
        return int(index) if index.isdecimal() else -1, field, place

    def _check(self, name, shape, dtype):
        index, field, place = self._split(name)
        if not 0 <= index < len(self._parameters) or (place != "") != (self._of(field) == "list"):
            raise CheckpointError("it holds optim.%s, which this optimizer (of %d parameters) has "
                                  "not" % (name, len(self._parameters)))
        parameter = self._parameters[index]
        like = self._of(field) == "tensor" and type(self._optimizer) in _LIKE_PARAMETERS
        if like and (shape, dtype) != (tuple(parameter.shape), parameter.dtype):
            raise CheckpointError("it holds optim.%s as %s %s, this optimizer needs %s %s"
                                  % (name, dtype, list(shape), parameter.dtype,
                                     list(parameter.shape)))

    def _of(self, field):
        return self._kinds.get(field, "tensor")

    def places(self):
        """{name: tensor}: the tensors that receive the bytes. Existing tensors of the optimizer
        are reused."""
        have = dict(export_state(self._optimizer)[0])
        for name, (shape, dtype) in self._stored.items():
            index, field, _ = self._split(name)
            device = "cpu" if self._of(field) in ("int", "float", "step") else (
                self._parameters[index].device)
            old = have.get(name)
            fits = old is not None and self._of(field) in ("tensor", "list") and (
                (tuple(old.shape), old.dtype, old.device) == (shape, dtype, device))
            self._places[name] = old if fits else torch.empty(shape, dtype=dtype, device=device)
        return self._places

    def finish(self):
        """Call it once the bytes are there."""
        state = {}
        for name, tensor in self._places.items():
            index, field, place = self._split(name)
            fields = state.setdefault(self._parameters[index], {})
            kind = self._of(field)
            if kind == "list":
                fields.setdefault(field, {})[int(place)] = tensor
            elif kind == "float":
                fields[field] = float(tensor)
            else:
                fields[field] = tensor if kind == "tensor" else int(tensor)
        for fields in state.values():
            for field, value in fields.items():
                if self._of(field) == "list":
                    fields[field] = [value[i] for i in range(len(value))]
        # __setstate__ is what unpickling calls: each class converts a numeric step to the form that
        # this version of torch needs.
        self._optimizer.__setstate__({"state": collections.defaultdict(dict, state),
                                      "param_groups": self._optimizer.param_groups})


def learning_rates(optimizer):
    return [float(group["lr"]) for group in optimizer.param_groups]


def set_learning_rates(optimizer, rates):
    for group, rate in zip(optimizer.param_groups, rates):
        if torch.is_tensor(group["lr"]):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
