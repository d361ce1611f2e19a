"""The parts of a state: the objects of a training as named tensors and texts."""
import json

import torch

from . import optimizer_state, schedule_state
from .errors import CheckpointError
from .safetensors import DTYPES, dtype_name

_MODEL = "model."
_OPTIMIZER = "optim."
_WRAPPER = "module."  # added by DistributedDataParallel
_EXTRA_STATE = "_extra_state"


class Parts:
    """Model, optimizer, and perhaps a scheduler and a ddprun.DistributedSampler."""

    def __init__(self, model, optimizer, scheduler, sampler):
        wrapper = torch.nn.parallel.DistributedDataParallel
        self.module = model.module if isinstance(model, wrapper) else model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.sampler = sampler

    def _model_tensors(self):
        state = self.module.state_dict(keep_vars=True)
        for name, value in state.items():
            if name.endswith(_EXTRA_STATE) or not torch.is_tensor(value):
                raise CheckpointError("%s of the model is no parameter and no buffer, and cannot be "
                                      "saved" % name)
        return {name: value.detach() for name, value in state.items()}

    def tensors(self):
        """Returns [(name, tensor)]. Tensors of the parts are not copied; numbers become new
        tensors. Raises CheckpointError."""
        tensors = [(_MODEL + name, tensor) for name, tensor in self._model_tensors().items()]
        tensors += [(_OPTIMIZER + name, tensor.detach()) for name, tensor
                    in optimizer_state.export_state(self.optimizer)[0]]
        for name, tensor in tensors:
            if dtype_name(tensor) is None or tensor.layout != torch.strided:
                raise CheckpointError("%s cannot be saved: its dtype is %s, its layout %s"
                                      % (name, tensor.dtype, tensor.layout))
        return tensors

    def buffer_names(self):
        kept = self._model_tensors()
        return {_MODEL + name for name, _ in self.module.named_buffers() if name in kept}

    def device(self):
        """The device of the model's first parameter."""
        for parameter in self.module.parameters():
            return parameter.device
        return torch.device("cpu")

    def texts(self):
        """Returns the metadata of the parts: learning rates, kinds, scheduler and sampler."""
        texts = {"lr": json.dumps(optimizer_state.learning_rates(self.optimizer))}
        texts.update(optimizer_state.export_state(self.optimizer)[1])
        if self.scheduler is not None:
            texts.update(schedule_state.export_schedule(self.scheduler))
        if self.sampler is not None:
            texts["sampler"] = self.sampler.state().to_string()
        return texts


class Restore:
    """The plan to put a state into the parts. The plan changes nothing yet. `stored`: the
    StoredTensors. Raises CheckpointError if the state does not fit."""

    def __init__(self, parts, stored, metadata):
        self._parts, self._metadata = parts, metadata
        self._model = {}  # by name in the state
        self._stored = stored
        wanted = dict(parts._model_tensors())
        optimizer = {}
        for tensor in stored:
            if tensor.name.startswith(_OPTIMIZER):
                optimizer[tensor.name[len(_OPTIMIZER):]] = (tensor.shape, DTYPES[tensor.dtype])
            elif tensor.name.startswith(_MODEL):
                self._fit(tensor, wanted)
        if wanted:
            raise CheckpointError("it lacks " + next(iter(wanted)))
        self._optimizer = optimizer_state.OptimizerRestore(parts.optimizer, optimizer, metadata)
        self._rates = json.loads(metadata.get("lr", "[]"))
        self._check_texts()

    def _fit(self, stored, wanted):
        name = stored.name[len(_MODEL):]
        if name.startswith(_WRAPPER) and name not in wanted:
            name = name[len(_WRAPPER):]
        if name not in wanted:
            raise CheckpointError("it holds %s, the model has none" % name)
        target = wanted.pop(name)
        if (stored.shape, DTYPES[stored.dtype]) != (tuple(target.shape), target.dtype):
            raise CheckpointError("it holds %s as %s %s, the model has %s %s"
                                  % (name, DTYPES[stored.dtype], list(stored.shape), target.dtype,
                                     list(target.shape)))
        self._model[stored.name] = target

    def _check_texts(self):
        groups = len(self._parts.optimizer.param_groups)
        if self._rates and len(self._rates) != groups:
            raise CheckpointError("it holds the learning rates of %d parameter groups, this "
                                  "optimizer has %d" % (len(self._rates), groups))
        if self._parts.scheduler is not None:
            schedule_state.check_schedule(self._metadata)
        if self._parts.sampler is not None:
            if "sampler" not in self._metadata:
                raise CheckpointError("it holds no place of a sampler")
            try:
                self._parts.sampler.check(self._metadata["sampler"])
            except ValueError as error:
                raise CheckpointError(str(error)) from None

    def places(self):
        """Returns the tensor that receives each stored tensor's bytes, in their order. None: the
        bytes are not needed."""
        optimizer = self._optimizer.places()
        return [optimizer[tensor.name[len(_OPTIMIZER):]] if tensor.name.startswith(_OPTIMIZER)
                else self._model.get(tensor.name) for tensor in self._stored]

    def finish(self):
        """Restores the rest. Call it when the tensors have received their bytes."""
        parts = self._parts
        self._optimizer.finish()
        optimizer_state.set_learning_rates(parts.optimizer, self._rates)
        if parts.scheduler is not None:
            schedule_state.restore_schedule(parts.scheduler, self._metadata, self._rates)
        if parts.sampler is not None:
            parts.sampler.resume(self._metadata["sampler"])
