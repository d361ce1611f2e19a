"""Files between ddp::Checkpointer and ddprun.Checkpointer: each continues from files of the other."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from fake_agent import SOURCES, environment

sys.path.insert(0, str(SOURCES))
import torch  # noqa: E402

import ddprun  # noqa: E402
from _ddprun_state import safetensors  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "mnist"


class Net(torch.nn.Module):
    """Has the same state as the net in worker/examples/mnist/net.cc."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 5, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(16)
        self.conv2 = torch.nn.Conv2d(16, 32, 5, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(32)
        self.hidden = torch.nn.Linear(512, 128)
        self.out = torch.nn.Linear(128, 10)

    def forward(self, images):
        pool = torch.nn.functional.max_pool2d
        x = torch.relu(self.norm1(pool(self.conv1(images), 2)))
        x = torch.relu(self.norm2(pool(self.conv2(x), 2)))
        return self.out(torch.relu(self.hidden(x.flatten(1))))


def contents(path):
    """The tensors of a file, by name, and its metadata."""
    file = safetensors.StateFile(path)
    tensors = {}
    for stored in file.tensors:
        tensor = torch.empty(stored.shape, dtype=safetensors.DTYPES[stored.dtype])
        file.read(stored.offset, safetensors.memory_of(tensor))
        tensors[stored.name] = tensor
    file.close()
    return tensors, file.metadata


class CppTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, step):
        return os.path.join(self.folder, f"step-{step:012d}.safetensors")

    def train_in_cpp(self, steps):
        done = subprocess.run(
            [os.environ["MNIST_DDP"], "--data", str(DATA), "--limit-train", "1000", "--seed", "1",
             "--checkpoint-dir", self.folder, "--checkpoint-every", "5", "--max-steps", str(steps)],
            check=False, capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def python(self):
        net = Net()
        optimizer = torch.optim.Adam(net.parameters(), lr=1)
        sampler = ddprun.DistributedSampler(range(1000), seed=1, samples_per_step=64)
        return net, optimizer, sampler, ddprun.Checkpointer(net, optimizer, sampler=sampler,
                                                            directory=self.folder)

    def test_python_goes_on_from_a_file_of_cpp(self):
        self.train_in_cpp(10)
        net, optimizer, sampler, checkpointer = self.python()
        state = checkpointer.load_latest()
        self.assertEqual((state.step, state.epoch, state.batch), (10, 0, 10))
        self.assertEqual(len(sampler), 1000 - 640)
        tensors, metadata = contents(self.path(10))
        for name, value in net.state_dict().items():
            self.assertTrue(torch.equal(value, tensors["model." + name]), name)
        for i, parameter in enumerate(net.parameters()):
            have = optimizer.state[parameter]
            self.assertEqual(float(have["step"]), 10)
            for field in ("exp_avg", "exp_avg_sq"):
                self.assertTrue(torch.equal(have[field], tensors[f"optim.{i}.{field}"]))
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], float(metadata["lr"].strip("[]")))
        self.assertEqual(metadata["rng"], bytes(torch.get_rng_state().tolist()).hex())

    def test_cpp_goes_on_from_a_file_of_python(self):
        net, optimizer, sampler, checkpointer = self.python()
        for _ in zip(range(7), sampler):
            optimizer.zero_grad()
            net(torch.randn(4, 1, 28, 28)).square().mean().backward()
            optimizer.step()
            checkpointer.step()
        checkpointer.save()
        path = checkpointer.flush().durable_path
        self.assertEqual(path, self.path(7))
        self.assertIn(f"resumed from step 7 ({path})", self.train_in_cpp(8))

    def test_a_file_that_both_have_only_passed_on_is_the_same(self):
        """Python loads a file of C++ and saves it again. Only the metadata about its maker and its buckets changes."""
        self.train_in_cpp(5)
        before = contents(self.path(5))
        checkpointer = self.python()[3]
        checkpointer.load_latest()
        os.rename(self.path(5), self.path(5) + ".old")
        checkpointer.save()
        checkpointer.flush()
        after = contents(self.path(5))
        self.assertEqual(before[0].keys(), after[0].keys())
        for name, value in before[0].items():
            self.assertTrue(torch.equal(value, after[0][name]), name)
        changed = {key for key in {*before[1], *after[1]} if before[1].get(key) != after[1].get(key)}
        self.assertEqual(changed, {"buckets", "ddprun_run", "ddprun_descends_from", "header_xxh3"})


if __name__ == "__main__":
    unittest.main()
