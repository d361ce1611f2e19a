"""The same training under ddp:: and under Python's DistributedDataParallel, to the last bit.

Every case of parity_cases.json makes 25 steps (in "uneven" cases, some ranks fewer) from the same weights on the same
data. It does so with SGD and Adam, or with the optimizers that it names. Each world size has one job of C++ ranks and
one of Python ranks. Parameters, buffers, the gradients of the last step, the losses of all steps and the sizes of the
buckets must be equal, bit for bit, rank for rank. Both jobs use the same libtorch, so only DistributedDataParallel, the
optimizers and the order of operations can make a difference.

Python's SyncBatchNorm refuses CPU tensors. The cases with "sync_batch_norm" compare SyncBatchNorm of ddp::, on
ranks with batches of different sizes, with Python's BatchNorm1d on ranks that each have the whole batch. The
order of the additions differs, so the results are equal within the case's "bound", and to the last bit if there is only
one rank. Seen red, with a difference of 0.2, when backward used the sums of its own rank instead of the sums of all
ranks.

$PARITY_TRAINER: tests/programs/parity_trainer.cc. Without $DDPRUN (a build of the worker library
alone), there is no launcher.
"""

import collections
import json
import os
import pathlib
import sys
import tempfile
import unittest

import launchers

LAUNCHER = "ddprun" if "DDPRUN" in os.environ else "none"
CASES = launchers.HERE / "parity_cases.json"
# A libtorch with this file, as Debian builds it, cannot add float16 over Gloo. So Python's hook fails there. Ours sends
# bytes instead (worker/src/compat/compat.h).
GLOO_WITHOUT_HALF = pathlib.Path("/usr/include/torch/csrc/distributed/c10d/gloo/ProcessGroupGlooDetail.hpp")
# After a step these differ between ranks. DistributedDataParallel makes them equal before the next step.
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def bits(tensor):
    """Dtype, shape, strides, and the bytes of the elements: 0.0 is not -0.0, and a NaN is itself."""
    return (str(tensor.dtype), tuple(tensor.shape), tensor.stride(),
            tensor.contiguous().numpy().tobytes())


class ParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        launchers.require_torch(cls())
        import torch
        sys.path.insert(0, str(launchers.PROGRAMS))
        cls.addClassCleanup(sys.path.pop, 0)
        from parity_models import MODELS
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-parity-")
        cls.addClassCleanup(temporary.cleanup)
        cls.start = pathlib.Path(temporary.name)
        torch.manual_seed(3)
        for name, make in MODELS.items():
            torch.save(make().state_dict(), cls.start / f"{name}.pt")
        cls.torch = torch
        cls.cases = json.loads(CASES.read_text())
        if GLOO_WITHOUT_HALF.exists():
            print("left out, because Python cannot run it with this torch: fp16_compress", file=sys.stderr)
            cls.cases = [case for case in cls.cases if case.get("hook") != "fp16_compress"]
        (cls.start / "cases.json").write_text(json.dumps(cls.cases))

    def results(self, world_size, program, flags=()):
        """The results of each rank: {"case.optimizer": {name: tensor}}."""
        done = launchers.run(self, LAUNCHER, program, nproc=world_size, flags=flags,
                             arguments=[str(self.start / "cases.json"), str(self.start)],
                             environment={"OMP_NUM_THREADS": "1"})
        self.assertEqual(done.code, 0, done.err)
        ranks = []
        for rank in range(world_size):
            runs = collections.defaultdict(dict)
            for key, tensor in self.torch.load(done.folder / "out" / f"rank{rank}.pt").items():
                case, optimizer, name = key.split(".", 2)
                runs[f"{case}.{optimizer}"][name] = tensor
            ranks.append(dict(runs))
        return ranks

    def check_world_size(self, world_size):
        cpp = self.results(world_size, os.environ["PARITY_TRAINER"], flags=["--no_python"])
        python = self.results(world_size, "parity_trainer.py")
        # In these cases, on one rank too, only the optimizers of torch 2.x round differently.
        optimizers_bound = "bound_on_2" if int(self.torch.__version__.split(".")[0]) >= 2 else ""
        expected = {f"{case['name']}.{optimizer}": case.get("bound", case.get(optimizers_bound))
                    for case in self.cases
                    for optimizer in case.get("optimizers", ["sgd", "adam"])}
        for rank in range(world_size):
            self.assertEqual(set(cpp[rank]), set(expected))
            self.assertEqual(set(python[rank]), set(expected))
        for run in sorted(expected):
            with self.subTest(run, world_size=world_size):
                for rank in range(world_size):
                    bound = expected[run]
                    exact = world_size == 1 and not run.startswith("pythons_adam")
                    if bound is None or exact:
                        self.assert_equal(cpp[rank][run], python[rank][run], f"rank {rank}")
                    else:
                        self.assert_near(cpp[rank][run], python[rank][run], bound, f"rank {rank}")
                    # The buffers of SyncBatchNorm are equal on all ranks.
                    own = () if run.startswith("sync_batch_norm") else BUFFERS
                    self.assert_replica(cpp[rank][run], cpp[0][run], own, f"rank {rank}")

    def assert_equal(self, cpp, python, where):
        self.assertEqual(set(cpp), set(python), where)
        different = [
            f"{name}: {self.distance(cpp[name], python[name])}"
            for name in python if bits(cpp[name]) != bits(python[name])
        ]
        self.assertEqual(different, [], f"{where}: C++ and Python differ")

    def assert_near(self, cpp, python, bound, where):
        self.assertEqual(set(cpp), set(python), where)
        different = [
            f"{name}: {self.distance(cpp[name], python[name])}" for name in python
            if (cpp[name].dtype, cpp[name].shape) != (python[name].dtype, python[name].shape)
            or not float((cpp[name] - python[name]).abs().max()) <= bound
        ]
        self.assertEqual(different, [], f"{where}: C++ and Python differ by more than {bound}")

    def assert_replica(self, mine, of_rank0, own, where):
        different = [
            name for name in mine
            if name.startswith("state.") and not name.endswith(own)
            and bits(mine[name]) != bits(of_rank0[name])
        ]
        self.assertEqual(different, [], f"{where} has drifted from rank 0")

    def distance(self, a, b):
        if a.shape != b.shape or a.dtype != b.dtype or a.stride() != b.stride():
            return f"{a.dtype} {list(a.shape)} {a.stride()}, {b.dtype} {list(b.shape)} {b.stride()}"
        count = int((a != b).sum())
        return f"{count} of {a.numel()} elements, by up to {float((a - b).abs().max()):.3g}"


def add(world_size):
    def test(self):
        self.check_world_size(world_size)
    setattr(ParityTest, f"test_world_size_{world_size}_equals_python_to_the_last_bit", test)


for size in (1, 2, 3, 4):
    add(size)


if __name__ == "__main__":
    unittest.main()
