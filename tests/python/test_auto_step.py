"""--auto-step: steps of unmodified scripts."""

import unittest

import fake_agent
import launchers
from fake_agent import FakeAgent

# What both versions of torch have in common: they make optimizers from `step`s, which the first object of a class
# wraps.
TORCH_1 = """\
class Optimizer:
  def __init__(self, *_): self._hook_for_profile()
  def _hook_for_profile(self):
    def profiled(func):
      def wrapper(*args, **kwargs): return func(*args, **kwargs)
      wrapper.hooked = True
      return wrapper
    if not getattr(type(self).step, 'hooked', None): type(self).step = profiled(type(self).step)
"""
TORCH_2 = """\
hooks = []
def register_optimizer_step_post_hook(hook): hooks.append(hook)
class Optimizer:
  def __init__(self, *_): self._patch_step_function()
  def _patch_step_function(self):
    def profiled(func):
      def wrapper(*args, **kwargs):
        out = func(*args, **kwargs)
        for hook in hooks: hook(args[0], args, kwargs)
        return out
      wrapper.hooked = True
      return wrapper
    if not getattr(type(self).step, 'hooked', None): type(self).step = profiled(type(self).step)
"""
BEGIN = """\
from torch.optim.optimizer import Optimizer
class SGD(Optimizer):
  def step(self, closure=None): return closure and closure()
a, b = SGD(), SGD()
"""


def steps(*numbers):
    return [f"STEP={n}" + ("\nPHASE=train" if n == 1 else "") for n in numbers]


class AutoStepTest(unittest.TestCase):
    def told(self, source, torch, err=""):
        """The reports of steps that the agent gets from a script with this torch. `self.off`: the script has
        reported that no steps will come."""
        with FakeAgent() as agent:
            agent.add_auto_step()
            package = agent.folder / "torch" / "optim"
            package.mkdir(parents=True)
            (package.parent / "__init__.py").write_text("")
            (package / "__init__.py").write_text("")
            (package / "optimizer.py").write_text(torch)
            self.out, connections = agent.run(self, source, err)
        self.off = ["TELLS=0"] in connections
        connections = [packets for packets in connections if packets != ["TELLS=0"]]
        self.assertLessEqual(len(connections), 1)
        return self.steps_of(connections[0]) if connections else []

    def steps_of(self, packets):
        self.assertEqual(packets[0], "TELLS=1")
        return packets[1:]

    def check(self, source, expected, err=""):
        for version, torch in (("1.13", TORCH_1), ("2", TORCH_2)):
            with self.subTest(version):
                self.assertEqual(self.told(BEGIN + source, torch, err), expected)

    def test_each_step_of_the_optimizer_is_told(self):
        self.check("for n in range(3): a.step()\n", steps(1, 2, 3))

    def test_two_optimizers_that_take_turns_are_one_training(self):
        self.check("for n in range(3): a.step(); b.step()\n", steps(1, 2, 3))

    def test_the_one_that_steps_most_counts(self):
        self.check("for n in range(2):\n  a.step()\n  for k in range(3): b.step()\n",
                   steps(1, 2, 3, 4, 5, 6))

    def test_an_optimizer_that_takes_the_place_of_another_goes_on_from_there(self):
        self.check("for n in range(5): a.step()\n"
                   "for n in range(4): b.step()\n"
                   "for n in range(3): a.step()\n"
                   "del a, b\n"
                   "c = SGD(); c.step(); c.step()\n", steps(*range(1, 12)))

    def test_two_that_take_turns_in_the_place_of_another_go_on_from_there(self):
        self.check("for n in range(5): a.step()\n"
                   "c = SGD()\n"
                   "for n in range(3): b.step(); c.step()\n", steps(*range(1, 8)))

    def test_several_evaluations_of_one_step_are_one_step(self):
        self.check("a.step(lambda: [0 for _ in range(20)])\n", steps(1))

    def test_a_step_that_failed_is_none(self):
        self.check("def closure(): raise KeyError\n"
                   "try: a.step(closure)\nexcept KeyError: pass\n"
                   "a.step()\n", steps(1))

    def test_a_program_that_tells_its_steps_itself_is_believed(self):
        self.check("import ddprun\n"
                   "a.step()\n"
                   "ddprun.step(100)\n"
                   "a.step()\n"
                   "a.step()\n", ["STEP=1\nPHASE=train", "STEP=100"])

    def test_a_users_module_of_the_same_name_is_not_touched(self):
        with FakeAgent() as agent:
            agent.add_auto_step()
            (agent.folder / "torch.py").write_text("")
            (agent.folder / "ddprun.py").write_text("print('imported')")
            (agent.folder / "optim.py").write_text(TORCH_2)
            out, connections = agent.run(
                self, "import sys, optim, torch\n"
                "torch.__path__ = []\n"
                "import _ddprun_auto_step\n"
                "_ddprun_auto_step._hook(optim)\n"
                + BEGIN.replace("torch.optim.optimizer", "optim") + "a.step()\na.step()\n")
        self.assertEqual(out, "")
        self.assertEqual([self.steps_of(packets) for packets in connections], [steps(1, 2)])

    def test_an_error_of_its_own_is_one_line_and_the_end_of_it(self):
        self.check("import ddprun\n"
                   "def wrong(n): raise OSError('broken')\n"
                   "ddprun._auto_step = wrong\n"
                   "a.step()\na.step()\n", [], "ddprun: --auto-step is off: OSError: broken\n")
        self.assertTrue(self.off)

    def test_a_torch_that_it_does_not_know_is_left_alone(self):
        for torch in ("", "class Optimizer: pass\n"):
            self.told("import torch.optim.optimizer", torch,
                      "ddprun: --auto-step is off: RuntimeError: this version of PyTorch has no "
                      "hook for steps\n")
            self.assertTrue(self.off, "ddprun expects steps of such a program, and hears of none")

    def test_it_imports_nothing_and_leaves_nothing_behind(self):
        self.assertEqual(self.told(
            "import sys\n"
            "print(any(name.startswith('torch') for name in sys.modules), 'ddprun' in sys.modules)\n"
            "before = len(sys.meta_path)\n"
            "import torch.optim.optimizer as o\n"
            "print(before - len(sys.meta_path), type(o.__loader__).__name__,\n"
            "      'exec_module' in vars(o.__loader__), 'ddprun' in sys.modules)\n", TORCH_1), [])
        self.assertEqual(self.out, "False False\n1 SourceFileLoader False False\n")

    def test_the_real_torch_of_this_machine(self):
        launchers.require_torch(self)
        with FakeAgent() as agent:
            agent.add_auto_step()
            connections = agent.run(
                self, "import torch\n"
                "p = torch.nn.Parameter(torch.ones(2))\n"
                "sgd, adam = torch.optim.SGD([p], lr=0.1), torch.optim.Adam([p])\n"
                "schedule = torch.optim.lr_scheduler.StepLR(sgd, 1)\n"
                "def closure():\n"
                "  sgd.zero_grad()\n"
                "  loss = (p * p).sum()\n"
                "  loss.backward()\n"
                "  return loss\n"
                "for n in range(2):\n"
                "  closure(); sgd.step(); adam.step(); schedule.step()\n"
                "lbfgs = torch.optim.LBFGS([p])\n"
                "for n in range(3): lbfgs.step(closure)\n")[1]
        self.assertEqual([self.steps_of(packets) for packets in connections], [steps(1, 2, 3, 4)])


class UnderDdprunTest(unittest.TestCase):
    """A DDP script that was written for torchrun. Its rank 1 dies after its sixth step."""

    def test_an_unmodified_script_tells_its_steps(self):
        result = launchers.run(self, "ddprun", "train_ddp.py", nproc=2,
                               flags=["--max-restarts", "1", "--auto-step"])
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.report["earlier_generations"][0]["step"], 6)
        self.assertTrue(result.report["restart_times"][0]["to_first_step"])
        self.assertNotIn("auto-step", result.err)


if __name__ == "__main__":
    unittest.main()
