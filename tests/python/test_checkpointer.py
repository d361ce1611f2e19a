"""ddprun.Checkpointer and ddprun.DistributedSampler in one process, without ddprun."""

import contextlib
import errno
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import fake_agent
from bad_disk import BadDisk
from fake_agent import SOURCES, FakeAgent, read_all

sys.path.insert(0, str(SOURCES))
import torch  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import ddprun  # noqa: E402

SAMPLER_DATA = pathlib.Path(__file__).resolve().parents[1] / "data/sampler/distributed_sampler.json"


class Training:
    """A small training with dropout and batch norm. `make` makes the optimizer, `schedule` a scheduler."""

    def __init__(self, make, schedule=None, seed=0, model=None):
        torch.manual_seed(seed)
        self.model = model or torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5),
            torch.nn.Linear(8, 1))
        self.optimizer = make(self.model.parameters())
        self.scheduler = schedule(self.optimizer) if schedule else None

    def checkpointer(self, folder, **more):
        return ddprun.Checkpointer(self.model, self.optimizer, self.scheduler, directory=folder, **more)

    def step(self, n):
        data = torch.randn(6, 4, generator=torch.Generator().manual_seed(n))

        def closure():
            self.optimizer.zero_grad()
            loss = self.model(data).square().mean()
            loss.backward()
            return loss

        self.optimizer.step(closure)
        if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(float(n))
        elif self.scheduler:
            self.scheduler.step()

    def result(self):
        state = {name: value.clone() for name, value in self.model.state_dict().items()}
        return state, [group["lr"] for group in self.optimizer.param_groups]


def save(checkpointer):
    checkpointer.save()
    checkpointer.flush()


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.01),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adamax": lambda p: torch.optim.Adamax(p),
    "Rprop": lambda p: torch.optim.Rprop(p),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3),
}
SCHEDULERS = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [3, 5]),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (1 + n)),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 9),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=12),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=2), lr_scheduler.MultiStepLR(o, [2, 4])], [2]),
}


class TemporaryFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def names(self):
        return sorted(os.listdir(self.folder))


class ResumeTest(TemporaryFolder):
    STEPS = 8
    CUT = 4

    def assert_same(self, one, other):
        self.assertEqual(one[1], other[1])
        self.assertEqual(one[0].keys(), other[0].keys())
        for name, value in one[0].items():
            self.assertTrue(torch.equal(value, other[0][name]), name)

    def check(self, make, schedule=None):
        """A training stops, and another one continues from its file. The result equals that of a training without a
        stop, to the last bit."""
        whole = Training(make, schedule)
        for n in range(self.STEPS):
            whole.step(n)
        first = Training(make, schedule)
        checkpointer = first.checkpointer(self.folder, save_every=self.CUT)
        self.assertIsNone(checkpointer.load_latest())
        for n in range(self.CUT):
            first.step(n)
            checkpointer.step()
        self.assertEqual(checkpointer.flush().error, "")
        second = Training(make, schedule, seed=99)
        state = second.checkpointer(self.folder).load_latest()
        self.assertEqual((state.step, state.batch), (self.CUT, self.CUT))
        for n in range(state.step, self.STEPS):
            second.step(n)
        self.assert_same(whole.result(), second.result())

    def test_optimizers(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as self.folder:
                self.check(make)

    def test_schedulers(self):
        for name, schedule in SCHEDULERS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as self.folder:
                self.check(OPTIMIZERS["momentum"], schedule)

    def test_parameters_that_do_not_lie_in_order(self):
        def convolution():
            torch.manual_seed(5)
            return torch.nn.Sequential(torch.nn.Unflatten(1, (4, 1, 1)), torch.nn.Conv2d(4, 2, 1),
                                       torch.nn.Flatten()).to(memory_format=torch.channels_last)

        saved = Training(OPTIMIZERS["Adam"], model=convolution())
        saved.step(0)
        save(saved.checkpointer(self.folder))
        loaded = Training(OPTIMIZERS["Adam"], model=convolution())
        loaded.checkpointer(self.folder).load_latest()
        self.assert_same(saved.result(), loaded.result())


class CheckpointerTest(TemporaryFolder):
    def training(self):
        return Training(OPTIMIZERS["momentum"])

    def test_texts_of_the_program_come_back(self):
        checkpointer = self.training().checkpointer(self.folder)
        checkpointer.step(7, epoch=2, batch=3, user={"best": "0.9 ä"})
        save(checkpointer)
        state = self.training().checkpointer(self.folder).load_latest()
        self.assertEqual((state.step, state.epoch, state.batch, state.user, state.world_size),
                         (7, 2, 3, {"best": "0.9 ä"}, 1))
        with self.assertRaises(TypeError):
            checkpointer.step(user={"best": 0.9})

    def test_the_newest_files_stay(self):
        checkpointer = self.training().checkpointer(self.folder, save_every=1, keep_every=4)
        for _ in range(7):
            checkpointer.step()
        status = checkpointer.flush()
        self.assertEqual((status.saved, status.durable_step), (7, 7))
        self.assertEqual(self.names(), [f"step-{step:012d}.safetensors" for step in (4, 6, 7)])

    def test_a_damaged_tensor_is_set_aside_and_the_older_file_is_taken(self):
        checkpointer = self.training().checkpointer(self.folder, save_every=1)
        checkpointer.step()
        checkpointer.step()
        path = pathlib.Path(checkpointer.flush().durable_path)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, 1)
        older, aside = self.names()
        self.assertEqual(older, "step-000000000001.safetensors")
        self.assertRegex(aside, r"step-000000000002\.safetensors\.[0-9a-f]{16}\.corrupt", "of this run")

    def test_of_the_damaged_files_of_a_run_a_save_leaves_the_two_newest(self):
        """It does not matter which process has renamed them. Break: do not look for them after a save."""
        run = "5d0c4f6b9e21a873"
        named = ["step-%d.safetensors.%s.corrupt" % (step, run) for step in (1, 2, 3)]
        for name in [*named, "step-1.safetensors.corrupt"]:
            pathlib.Path(self.folder, name).write_text("")
        with unittest.mock.patch.dict(os.environ, {"DDPRUN_JOB_RUN_ID": run}):
            save(self.training().checkpointer(self.folder))
        self.assertEqual(self.names(), sorted([
            "step-000000000000.safetensors", "step-1.safetensors.corrupt", *named[1:]]))

    def test_a_lost_block_in_a_tensor_leads_to_the_older_file(self):
        """Break: end the search at EIO, as at any other error."""
        checkpointer = self.training().checkpointer(self.folder, save_every=1)
        checkpointer.step()
        checkpointer.step()
        path = checkpointer.flush().durable_path
        with BadDisk({path: os.stat(path).st_size - 1}):
            with unittest.mock.patch.dict(os.environ, {"DDPRUN_STATE_TIMEOUT_MS": "200"}):
                self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, 1)
        self.assertEqual(self.names(), [f"step-{step:012d}.safetensors" for step in (1, 2)])
        self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, 2)

    def newest_of_two(self):
        """The path of the newer of two files of this folder."""
        checkpointer = self.training().checkpointer(self.folder, save_every=1)
        checkpointer.step()
        checkpointer.step()
        return checkpointer.flush().durable_path

    def test_a_stale_file_is_opened_again_once(self):
        """Break: begin to wait at the first ESTALE."""
        path = self.newest_of_two()
        with BadDisk({path: 0}, errno.ESTALE, times=1), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, 2)
        self.assertEqual(said.getvalue(), "")

    def test_what_is_unavailable_for_a_while_is_waited_for(self):
        """Break: skip what cannot be read."""
        path = self.newest_of_two()
        for code in (errno.ETIMEDOUT, errno.ESTALE):
            with BadDisk({path: 0}, code, times=3), contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, 2)
            self.assertIn("training waits for it, at most 120 s (--state-timeout)", said.getvalue())

    def test_what_stays_unavailable_ends_the_training_after_the_state_timeout(self):
        path = self.newest_of_two()
        files = self.names()
        with BadDisk({path: 0}, errno.ETIMEDOUT):
            with unittest.mock.patch.dict(os.environ, {"DDPRUN_STATE_TIMEOUT_MS": "200"}):
                with self.assertRaisesRegex(
                        ddprun.StateUnreadableError, r"%s: cannot read .* \(errno 110, user id %d\), for .* "
                        "start with --start-anew" % (path, os.geteuid())):
                    self.training().checkpointer(self.folder).load_latest()
        self.assertEqual(self.names(), files)

    def test_what_was_there_before_is_neither_loaded_nor_replaced_nor_removed_where_training_begins_anew(self):
        """With --start-anew. Break: look into the folder."""
        path = self.newest_of_two()
        before = pathlib.Path(path).read_bytes()
        with unittest.mock.patch.dict(os.environ, {"DDPRUN_ANEW": "1", "DDPRUN_JOB_RUN_ID": "5d0c4f6b9e21a873"}):
            checkpointer = self.training().checkpointer(self.folder, save_every=2, keep_last=1)
            self.assertIsNone(checkpointer.load_latest())
            for _ in range(6):
                checkpointer.step()
            status = checkpointer.flush()
            self.assertEqual((status.saved, status.failed), (2, 1), "the name of step 2 is taken")
            self.assertEqual(checkpointer.load_latest().step, 6, "which it has written itself")
        self.assertEqual(self.names(), [f"step-{step:012d}.safetensors" for step in (1, 2, 6)])
        self.assertEqual(pathlib.Path(path).read_bytes(), before)

    def test_training_does_not_begin_anew_beside_what_cannot_be_loaded(self):
        pathlib.Path(self.folder, "step-000000000005.safetensors").write_text("not whole")
        with self.assertRaisesRegex(ddprun.StateUnreadableError, "none of them can be loaded; .*"
                                    "step-000000000005.safetensors: it is damaged"):
            self.training().checkpointer(self.folder).load_latest()

    def test_a_plan_without_a_state_does_not_lead_to_step_0_beside_a_damaged_file(self):
        """In a later generation ddprun looks only for whole files. Break: only list the folder."""
        save(self.training().checkpointer(self.folder))
        with unittest.mock.patch.dict(os.environ, {"DDPRUN_RESTORE_TIER": "none"}):
            self.assertIsNone(self.training().checkpointer(self.folder).load_latest(),
                              "ddprun knows the whole ones, and has discarded them")
            pathlib.Path(self.folder, "step-000000000005.safetensors").write_text("not whole")
            with self.assertRaisesRegex(ddprun.StateUnreadableError, "none of them can be loaded; .*"
                                        "step-000000000005.safetensors: it is damaged"):
                self.training().checkpointer(self.folder).load_latest()

    def test_an_unseen_checkpoint_is_looked_for_before_the_planned_state(self):
        """Break: do not read DDPRUN_RESTORE_UNSEEN."""
        self.newest_of_two()
        planned = {"DDPRUN_RESTORE_TIER": "durable", "DDPRUN_RESTORE_STEP": "2", "DDPRUN_RESTORE_RANK": "0"}
        for unseen, step in (("1 0 -1 -1", 1), ("5 0 -1 -1", 2)):
            with unittest.mock.patch.dict(os.environ, {**planned, "DDPRUN_RESTORE_UNSEEN": unseen}):
                self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, step)
        older = os.path.join(self.folder, "step-000000000001.safetensors")
        with BadDisk({older: 0}, errno.EIO), contextlib.redirect_stderr(io.StringIO()):
            with unittest.mock.patch.dict(os.environ, {**planned, "DDPRUN_RESTORE_UNSEEN": "1 0 -1 -1"}):
                self.assertEqual(self.training().checkpointer(self.folder).load_latest().step, 2)

    def test_a_requeued_job_does_not_begin_anew_beside_a_folder_that_cannot_be_listed(self):
        """Break: look only at DDPRUN_ANEW."""
        folder = os.path.join(self.folder, "checkpoints")
        os.symlink(folder, folder)
        anew = {"DDPRUN_ANEW": "1", "DDPRUN_RESTORE_TIER": "none", "DDPRUN_STATE_TIMEOUT_MS": "100"}
        with unittest.mock.patch.dict(os.environ, {**anew, "DDPRUN_EPOCH": "1"}):
            with self.assertRaisesRegex(ddprun.StateUnreadableError, "cannot list"):
                self.training().checkpointer(folder).load_latest()

    def test_a_state_that_does_not_fit_is_an_error_that_names_what(self):
        save(self.training().checkpointer(self.folder))
        for make, model, text in (
                (OPTIMIZERS["SGD"], torch.nn.Linear(4, 8), "it holds .*, the model has none"),
                (OPTIMIZERS["SGD"], torch.nn.Sequential(
                    torch.nn.Linear(4, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(),
                    torch.nn.Linear(9, 1)),
                 r"it holds 0.bias as .* \[8\], the model has .* \[9\]"),
                (OPTIMIZERS["SGD"], torch.nn.Sequential(
                    *self.training().model, torch.nn.Linear(1, 1)), "it lacks 4.weight")):
            with self.assertRaisesRegex(ddprun.AgreedError, text):
                Training(make, model=model).checkpointer(self.folder).load_latest()

    def test_a_disk_that_fails_costs_a_checkpoint_and_not_the_training(self):
        folder = os.path.join(self.folder, "file")
        pathlib.Path(folder).write_text("")
        checkpointer = self.training().checkpointer(folder)
        checkpointer.step()
        checkpointer.save()
        status = checkpointer.flush()
        self.assertEqual((status.saved, status.failed), (0, 1))
        self.assertIn("file", status.error)

    def test_states_that_are_spread_over_the_ranks_are_refused(self):
        class FullyShardedDataParallel(torch.nn.Linear):
            pass

        model = FullyShardedDataParallel(1, 1)
        with self.assertRaisesRegex(ValueError, "a FullyShardedDataParallel has a part of the state"):
            ddprun.Checkpointer(model, OPTIMIZERS["SGD"](model.parameters()), directory=self.folder)

    def test_wrong_options_are_refused(self):
        for options in ({"keep_last": 0}, {"when_busy": "never"}, {"save_every": -1}):
            with self.assertRaises(ValueError, msg=options):
                self.training().checkpointer(self.folder, **options)
        with self.assertRaises(ValueError):
            self.training().checkpointer("", save_every=1)


def samplers(size, replicas, **more):
    return [ddprun.DistributedSampler(range(size), replicas, rank, **more) for rank in range(replicas)]


class SamplerTest(unittest.TestCase):
    def test_samples_are_those_of_pytorch(self):
        for case in json.loads(SAMPLER_DATA.read_text())["cases"]:
            made = samplers(case["dataset_size"], case["num_replicas"], shuffle=case["shuffle"],
                            seed=case["seed"], drop_last=case["drop_last"])
            for sampler, expected in zip(made, case["indices"]):
                sampler.set_epoch(case["epoch"])
                self.assertEqual((len(sampler), list(sampler)), (len(expected), expected), case)

    def test_each_sample_is_used_once_though_the_world_changes_in_the_middle(self):
        """7 ranks use 5 samples each, then 3 ranks 10 samples each, then 2 ranks all remaining samples."""
        used, text = [], None
        for replicas, count in ((7, 5), (3, 10), (2, 100)):
            made = samplers(100, replicas, seed=3, samples_per_step=count)
            for sampler in made:
                sampler.set_epoch(4)
                if text:
                    sampler.resume(text)
                    sampler.set_epoch(4)  # again, as a loop over epochs does: this changes nothing
                used += [sample for sample, _ in zip(sampler, range(count))]
                sampler.finish_step()
            states = {sampler.state().to_string() for sampler in made}
            self.assertEqual(len(states), 1)
            text = states.pop()
        self.assertEqual(text, "epoch=4 seed=3 dataset_size=100 shuffle=1 consumed=100")
        self.assertEqual(sorted(used[:99]), sorted(set(used[:99])))
        self.assertEqual(set(used), set(range(100)))

    def test_the_epoch_after_the_resumed_one_is_whole(self):
        sampler = samplers(10, 1)[0]
        sampler.resume("epoch=1 seed=0 dataset_size=10 shuffle=1 consumed=7")
        sampler.set_epoch(1)
        self.assertEqual((len(sampler), len(list(sampler))), (3, 3))
        sampler.set_epoch(2)
        self.assertEqual((len(sampler), len(list(sampler))), (10, 10))
        self.assertEqual(len(list(sampler)), 10)

    def test_a_state_of_another_order_is_refused(self):
        sampler = samplers(10, 1)[0]
        for text in ("epoch=1 seed=1 dataset_size=10 shuffle=1 consumed=7",
                     "epoch=1 seed=0 dataset_size=11 shuffle=1 consumed=7",
                     "epoch=1 seed=0 dataset_size=10 shuffle=0 consumed=7",
                     "epoch=1 seed=0 dataset_size=10 shuffle=1 consumed=11", "epoch=1"):
            with self.assertRaises(ValueError, msg=text):
                sampler.resume(text)

    def test_a_loader_with_workers_needs_the_samples_of_a_step(self):
        """Otherwise a restart would lose samples that no step has used."""
        dataset = TensorDataset(torch.arange(20))
        for samples_per_step, workers in ((None, 0), (2, 0), (2, 2)):
            sampler = ddprun.DistributedSampler(dataset, samples_per_step=samples_per_step)
            for _ in zip(range(3), DataLoader(dataset, 2, sampler=sampler, num_workers=workers)):
                sampler.finish_step()
            self.assertEqual(sampler.state().consumed, 6, (samples_per_step, workers))
        sampler = ddprun.DistributedSampler(dataset)
        for _ in zip(range(1), DataLoader(dataset, 2, sampler=sampler, num_workers=2)):
            sampler.finish_step()
        with self.assertRaisesRegex(ValueError, "give samples_per_step"):
            sampler.state()


class LoaderTest(TemporaryFolder):
    EPOCHS = 3

    def train(self, steps=None, **more):
        """Trains with dropout over a DataLoader until `steps` are made; returns the losses by step."""
        torch.manual_seed(1)
        dataset = TensorDataset(torch.randn(22, 4))
        training = Training(OPTIMIZERS["Adam"], seed=2)
        sampler = ddprun.DistributedSampler(dataset, seed=5)
        loader = DataLoader(dataset, 4, sampler=sampler)
        checkpointer = ddprun.Checkpointer(training.model, training.optimizer, sampler=sampler,
                                           directory=self.folder, **more)
        checkpointer.load_latest()
        losses = {}
        for epoch in range(checkpointer.state.epoch, self.EPOCHS):
            sampler.set_epoch(epoch)
            for (data,) in loader:
                training.optimizer.zero_grad()
                loss = training.model(data).square().mean()
                loss.backward()
                training.optimizer.step()
                checkpointer.step()
                losses[checkpointer.state.step] = float(loss)
                if checkpointer.state.step == steps:
                    checkpointer.close()
                    return losses
        checkpointer.close()
        return losses

    def test_a_training_that_stops_anywhere_goes_on_as_if_it_had_not(self):
        """It may also stop at the end of an epoch. With dropout: a DataLoader must not change its random numbers.
        Break: leave out at_first_sample() in Checkpointer."""
        with tempfile.TemporaryDirectory() as self.folder:
            whole = self.train()
        self.assertEqual(len(whole), 6 * self.EPOCHS)
        for cut in (1, 5, 6, 7, 12, 17):
            with self.subTest(cut), tempfile.TemporaryDirectory() as self.folder:
                losses = self.train(cut, save_every=1)
                losses.update(self.train())
                self.assertEqual(losses, whole)


class AgentTest(TemporaryFolder):
    """The messages between a Checkpointer and the agent."""

    SOURCE = ("import ddprun, torch\n"
              "model = torch.nn.Linear(2, 2)\n"
              "optimizer = torch.optim.SGD(model.parameters(), lr=1)\n"
              "checkpointer = ddprun.Checkpointer(model, optimizer, snapshot_every=1)\n"
              "checkpointer.load_latest()\n")

    def environment(self, **more):
        for name in ("disk", "memory"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        return {"DDPRUN_CHECKPOINT_DIR": os.path.join(self.folder, "disk"),
                "DDPRUN_SNAPSHOT_DIR": os.path.join(self.folder, "memory"), **more}

    def test_the_import_alone_brings_no_torch(self):
        with FakeAgent() as agent:
            out = agent.run(self, "import ddprun, sys\nprint('torch' in sys.modules)\n")[0]
        self.assertEqual(out, "False\n")

    def test_phases_steps_snapshots_and_files_are_told(self):
        with FakeAgent() as agent:
            connections = agent.run(
                self, self.SOURCE + "for _ in range(3):\n"
                "  checkpointer.step()\n"
                "  checkpointer._steps._writer._background.wait()\n"
                "checkpointer.save()\n"
                "checkpointer.close()\n", **self.environment())[1]
        path = os.path.join(self.folder, "disk", "step-000000000003.safetensors")
        self.assertEqual(connections[0][:5], ["TELLS=1", "SAVES=1", "PHASE=restore",
                                              "PHASE=first_step", "STEP=1"])
        self.assertIn("SNAPSHOT=2", connections[0])
        self.assertIn("CHECKPOINT=3 " + path, connections[0])
        snapshots = sum(line.startswith("SNAPSHOT=") for line in connections[0])
        for tier, saves in (("memory", snapshots), ("durable", 1)):
            times = [line.split()[1] for line in connections[0] if line.startswith("SAVED=" + tier)]
            self.assertEqual(len(times), saves)
            self.assertTrue(all(0 < int(time) < 60e6 for time in times), times)
        self.assertIn("step-000000000002.safetensors",
                      os.listdir(os.path.join(self.folder, "memory")))

    def test_a_snapshot_that_cannot_be_made_is_told_once(self):
        settings = self.environment(DDPRUN_SNAPSHOT_DIR=os.path.join(self.folder, "missing"))
        with FakeAgent() as agent:
            with agent.start(
                    self.SOURCE + "for _ in range(3):\n"
                    "  checkpointer.step()\n"
                    "  checkpointer._steps._writer._background.wait()\n"
                    "checkpointer.close()\n", **settings) as worker:
                err = worker.communicate()[1]
            packets = agent.packets()[0]
        self.assertEqual(worker.returncode, 0, err)
        self.assertIn("no snapshots in memory any more", err)
        failed = [line for line in packets if line.startswith("SNAPSHOT_FAILED=")]
        self.assertEqual(len(failed), 1, packets)
        self.assertIn("missing", failed[0])

    def test_what_waits_for_the_disk_is_a_phase_of_its_own(self):
        """Otherwise the time limit of a step would apply, and ddprun would report a slow disk as a hang."""
        with FakeAgent() as agent:
            packets = agent.run(
                self, "import threading\n" + self.SOURCE
                + "from _ddprun_state import folder\n"
                "checkpointer.step()\n"
                "original, write = checkpointer._writer.wait, folder.save_checkpoint\n"
                "folder.save_checkpoint = lambda *all: (waits.wait(), write(*all))[1]\n"
                "for end in checkpointer.save, checkpointer.flush, checkpointer.close:\n"
                "  waits = threading.Event()\n"
                "  checkpointer.step()\n"
                "  checkpointer.save()\n"
                "  checkpointer._writer.wait = lambda: (waits.set(), original())\n"
                "  end()\n"
                "  original()\n"
                "  checkpointer._writer.wait = original\n", **self.environment())[1][0]
        told = [packet for packet in packets if packet.startswith(("PHASE=", "CHECKPOINT="))]
        for step in 2, 3, 4:
            written = told.index("CHECKPOINT=%d %s/disk/step-%012d.safetensors"
                                 % (step, self.folder, step))
            self.assertEqual(told[written - 1], "PHASE=checkpoint", told)
        self.assertEqual(told[-1], "PHASE=train")

    def test_a_file_is_made_when_the_agent_asks_for_one(self):
        with FakeAgent() as agent, agent.start(
                self.SOURCE + "checkpointer.step()\n"
                "print('made a step', flush=True)\n"
                "input()\n"
                "checkpointer.step()\n"
                "checkpointer.step()\n"
                "checkpointer.close()\n", **self.environment()) as worker:
            with agent.accept() as connection:
                self.assertEqual(worker.stdout.readline(), "made a step\n")
                connection.send(b"SAVE=1")
                worker.stdin.write("\n")
                worker.stdin.flush()
                packets = read_all(connection)
            self.assertEqual(worker.communicate(timeout=fake_agent.HANG), ("", ""))
        path = os.path.join(self.folder, "disk", "step-000000000002.safetensors")
        self.assertEqual([packet for packet in packets if packet.startswith("CHECKPOINT")],
                         ["CHECKPOINT=2 " + path])

    def test_a_folder_that_is_a_later_generations_ends_the_job(self):
        environment = self.environment(
            TORCHELASTIC_RUN_ID="j", DDPRUN_EPOCH="0", DDPRUN_GENERATION="1", DDPRUN_JOB_RUN_ID="r")
        pathlib.Path(self.folder, "disk", "owner").write_text("0 2 j\nrun=r state=held\n")
        with FakeAgent() as agent, agent.start(self.SOURCE, **environment) as worker:
            err = worker.communicate(timeout=fake_agent.HANG)[1]
            packets = agent.packets()[0]
        self.assertEqual(worker.returncode, 1)
        self.assertIn("FolderTakenError: rank 0: the checkpoint folder", err)
        self.assertEqual(packets[:3], ["TELLS=1", "SAVES=1", "PHASE=restore"])
        self.assertTrue(packets[3].startswith("ERROR=folder rank 0: the checkpoint folder"), packets)

    def test_the_package_is_missed_by_name(self):
        with FakeAgent() as agent:
            for file in (agent.module / "_ddprun_state").iterdir():
                file.unlink()
            (agent.module / "_ddprun_state").rmdir()
            out = agent.run(self, "import ddprun\n"
                            "try: ddprun.Checkpointer\n"
                            "except ImportError as error: print(error)\n")[0]
        self.assertIn("ddprun.Checkpointer needs the folder _ddprun_state beside ddprun.py", out)


if __name__ == "__main__":
    unittest.main()
