"""The cases of parity_cases.json under Python's DistributedDataParallel: see
tests/programs/parity_trainer.cc."""

import contextlib
import dataclasses
import json
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from parity_models import MODELS

STEPS = 25
BATCH = 8
FIRST_COMPRESSED = 5
UNEVEN_BATCHES = (8, 5, 11, 2)  # the batch size of each rank, for SyncBatchNorm
NEWER_TORCH = int(torch.__version__.split(".")[0]) >= 2


class AdamOfCpp(torch.optim.Optimizer):
    """Adam with amsgrad, in the order of operations of C++ and of torch 1.13.

    The Adam of torch 2.x rounds differently (lerp). The test does not compare optimizers."""

    def __init__(self, parameters, lr, weight_decay, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "betas": betas,
                                      "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, self.state[parameter], **group)

    def update(self, parameter, state, lr, weight_decay, betas, eps, **_):
        if not state:
            state.update(step=0, mean=torch.zeros_like(parameter),
                         square=torch.zeros_like(parameter), most=torch.zeros_like(parameter))
        state["step"] += 1
        gradient = parameter.grad.add(parameter, alpha=weight_decay)
        state["mean"].mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
        state["square"].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
        torch.maximum(state["most"], state["square"], out=state["most"])
        corrected = state["most"].sqrt() / (1 - betas[1] ** state["step"]) ** 0.5
        parameter.addcdiv_(state["mean"], corrected.add_(eps),
                           value=-lr / (1 - betas[0] ** state["step"]))


class FirstBucketAsSet(torch.nn.parallel.DistributedDataParallel):
    """torch 2.x cannot set the size of the first bucket if bucket_cap_mb is given."""

    def _ddp_init_helper(self, *arguments, **named):
        if hasattr(self, "_bucket_config"):  # torch 2.14
            self._bucket_config = dataclasses.replace(
                self._bucket_config, first_bucket_bytes_cap=dist._DEFAULT_FIRST_BUCKET_BYTES)
        else:
            self.bucket_bytes_cap_default = True
        super()._ddp_init_helper(*arguments, **named)


OPTIMIZERS = {
    "plain_sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adam": lambda p: (AdamOfCpp(p, lr=0.01, weight_decay=1e-4) if NEWER_TORCH else
                       torch.optim.Adam(p, lr=0.01, weight_decay=1e-4, amsgrad=True)),
    "pythons_adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=1e-4, amsgrad=True),
}
OPTIONS = ("broadcast_buffers", "bucket_cap_mb", "find_unused_parameters",
           "gradient_as_bucket_view", "static_graph")
POWER_SGD_OPTIONS = ("matrix_approximation_rank", "use_error_feedback", "warm_start",
                     "orthogonalization_epsilon", "random_seed")
FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES


def start_model(case, folder):
    torch.manual_seed(100 + dist.get_rank())  # the initial weights of the other ranks must not matter
    model = MODELS[case["model"]]()
    if dist.get_rank() == 0:
        model.load_state_dict(torch.load(folder / (case["model"] + ".pt")))
    else:
        for buffer in model.buffers():
            buffer.add_(dist.get_rank())
    if case.get("double"):
        model.double()
    for name in case.get("frozen", ()):
        model.get_parameter(name).requires_grad_(False)
    if case.get("channels_last"):
        model.to(memory_format=torch.channels_last)
    return model


def whole_batch_loss(case, model, batch):
    """Must equal SyncBatchNorm, which torch has for CUDA only: each rank has all ranks' samples."""
    xs, ys = [], []
    for rank, size in enumerate(UNEVEN_BATCHES[:dist.get_world_size()]):
        generator = torch.Generator().manual_seed(1000 * batch + rank)
        xs.append(torch.randn((size, 1, 8, 8), generator=generator))
        ys.append(torch.randint(0, 10, (size,), generator=generator))
    x = torch.cat(xs).double() if case.get("double") else torch.cat(xs)
    return F.cross_entropy(model(x, batch), torch.cat(ys))


def batch_loss(case, model, batch):
    if case.get("sync_batch_norm"):
        return whole_batch_loss(case, model, batch)
    generator = torch.Generator().manual_seed(1000 * batch + dist.get_rank())
    x = torch.randn((BATCH, 1, 8, 8), generator=generator)
    y = torch.randint(0, 10, (BATCH,), generator=generator)
    turn = dist.get_rank() + (0 if case.get("turn_by_rank") else batch)
    return F.cross_entropy(model(x, turn), y)


def add_hook(case, model):
    if case["hook"] == "fp16_compress":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return
    given = {name: case[name] for name in POWER_SGD_OPTIONS if name in case}
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=FIRST_COMPRESSED, **given)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def steps_of(case):
    if not case.get("uneven"):
        return STEPS
    if case.get("rank_0_has_none") and dist.get_rank() == 0 and dist.get_world_size() > 1:
        return 0
    return STEPS - 6 * ((dist.get_rank() + 1) % dist.get_world_size())


def train(case, model, optimizer):
    micro_batches = case.get("micro_batches", 1)
    evaluate_every = case.get("evaluate_every", STEPS + 1)
    losses = []
    for step in range(steps_of(case)):
        if step % case.get("zero_grad_every", 1) == 0:
            optimizer.zero_grad(set_to_none=case.get("set_to_none", True))
        for i in range(micro_batches):
            last = i + 1 == micro_batches
            with contextlib.nullcontext() if last else model.no_sync():
                loss = batch_loss(case, model, step * micro_batches + i)
                losses.append(loss.item())
                loss.backward()
        optimizer.step()
        if step % evaluate_every == evaluate_every - 1:
            with torch.no_grad():
                losses.append(batch_loss(case, model, step).item())
    return losses


def bucket_sizes(model):
    logged = model._get_ddp_logging_data()
    sizes = logged.get("rebuilt_bucket_sizes") or logged["bucket_sizes"]
    return [int(size) for size in sizes.split(", ")]


def run(case, optimizer_name, folder, results):
    module = start_model(case, folder)
    dist._DEFAULT_FIRST_BUCKET_BYTES = case.get("first_bucket_bytes", FIRST_BUCKET_BYTES)
    parallel = torch.nn.parallel.DistributedDataParallel
    model = (FirstBucketAsSet if "first_bucket_bytes" in case else parallel)(
        module, **{name: case[name] for name in OPTIONS if name in case})
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    torch.manual_seed(5 + dist.get_rank())
    if "hook" in case:
        add_hook(case, model)
    joined = contextlib.nullcontext()
    if case.get("uneven"):
        joined = model.join(divide_by_initial_world_size=case.get("divide_by_initial_world_size", True))
    with joined:
        losses = train(case, model, optimizer)

    prefix = f"{case['name']}.{optimizer_name}."
    for name, tensor in module.state_dict().items():
        results[f"{prefix}state.{name}"] = tensor.detach().clone()
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            gradient = parameter.grad
            gradient = gradient.to_dense() if gradient.is_sparse else gradient
            results[f"{prefix}gradient.{name}"] = gradient.clone()
    results[prefix + "losses"] = torch.tensor(losses, dtype=torch.float64)
    sizes = bucket_sizes(model) if steps_of(case) > 0 else []  # a forward notes them
    results[prefix + "buckets"] = torch.tensor(sizes, dtype=torch.int64)


def main():
    out, cases, start = map(pathlib.Path, sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = {}
    for case in json.loads(cases.read_text()):
        for optimizer in case.get("optimizers", ["sgd", "adam"]):
            run(case, optimizer, start, results)
    torch.save(results, out / f"rank{dist.get_rank()}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
