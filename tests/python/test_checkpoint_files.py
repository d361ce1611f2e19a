"""The files of ddprun.Checkpointer: their format, and which files of a folder may be loaded, replaced and removed. One
process, without ddprun."""

import contextlib
import ctypes
import errno
import io
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from bad_disk import BadDisk
from fake_agent import SOURCES

sys.path.insert(0, str(SOURCES))
import torch  # noqa: E402

import ddprun  # noqa: E402
from _ddprun_state import durable_file, folder, memory_room, owner, plan, process  # noqa: E402
from _ddprun_state import safetensors, search, snapshots, xxh3, xxh3_torch  # noqa: E402
from _ddprun_state.errors import DamagedError, FormatError, UnavailableError  # noqa: E402
from _ddprun_state.image import Staging  # noqa: E402


class TemporaryFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-python-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def names(self):
        return sorted(name for name in os.listdir(self.folder) if name != "owner")


class HashTest(unittest.TestCase):
    def test_all_ways_give_the_same(self):
        """Lengths on both sides of each limit where the algorithm changes, and of the length of a block."""
        data = bytes(i * 37 % 251 for i in range(5000))
        for size in (*range(300), 1023, 1024, 1025, 1087, 1088, 1089, 2048, 2049, 5000):
            text = xxh3.hash_text(data[:size])
            self.assertEqual("%016x" % xxh3_torch.xxh3(data[:size]), text, size)
            memory = (ctypes.c_char * size).from_buffer_copy(data[:size])
            self.assertEqual("%016x" % xxh3_torch.xxh3(memory), text, size)

    def test_it_is_xxh3_64(self):
        self.assertEqual(xxh3.hash_text(b""), "2d06800538d394c2")


def tensors():
    torch.manual_seed(3)
    made = [("model.b", torch.randn(3, 2)), ("model.a", torch.randn(5)),
            ("optim.0.step", torch.tensor(7)), ("model.empty", torch.empty(0, 4)),
            ("model.half", torch.randn(3).to(torch.bfloat16)), ("model.flag", torch.tensor(True))]
    return made


class StateFolder(TemporaryFolder):
    def write(self, step=3, metadata=None, change=lambda data: data):
        ordered = safetensors.file_order(tensors())
        header = safetensors.build_header(ordered, {"step": str(step), **(metadata or {})})
        data = header + b"".join(bytes(safetensors.memory_of(tensor)) for _, tensor in ordered)
        path = os.path.join(self.folder, folder.checkpoint_name(step))
        pathlib.Path(path).write_bytes(change(data))
        return path


class FormatTest(StateFolder):
    def test_what_is_written_is_read(self):
        file = safetensors.StateFile(self.write(metadata={"user": '{"ä":"\\u0001"}'}))
        self.assertEqual(file.metadata["user"], '{"ä":"\\u0001"}')
        self.assertEqual({tensor.name for tensor in file.tensors}, set(dict(tensors())))
        expected = dict(tensors())
        for stored in file.tensors:
            tensor = torch.empty(stored.shape, dtype=safetensors.DTYPES[stored.dtype])
            file.read(stored.offset, safetensors.memory_of(tensor))
            self.assertTrue(torch.equal(tensor, expected[stored.name]), stored.name)
            self.assertEqual(safetensors.hash_text(safetensors.memory_of(tensor)), stored.hash)
        file.close()

    def test_every_tensor_is_aligned(self):
        file = safetensors.StateFile(self.write())
        for stored in file.tensors:
            self.assertEqual(stored.offset % safetensors.element_size(stored.dtype), 0)
        file.close()

    def test_no_changed_byte_of_a_header_is_loaded(self):
        path = self.write()
        whole = pathlib.Path(path).read_bytes()
        size = 8 + int.from_bytes(whole[:8], "little")
        for at in range(size):
            changed = bytearray(whole)
            changed[at] ^= 1
            pathlib.Path(path).write_bytes(changed)
            # A space after the JSON has no meaning.
            if whole[at:at + 1] == b" ":
                continue
            with self.assertRaises(FormatError, msg=at):
                safetensors.StateFile(path)

    def test_a_short_file_and_one_that_is_too_long_are_damaged(self):
        for change in (lambda data: data[:5], lambda data: data[:-1], lambda data: data + b"1",
                       lambda data: b""):
            with self.assertRaises(DamagedError):
                safetensors.StateFile(self.write(change=change))

    def test_another_version_is_not_damaged(self):
        """A file of another version is left alone. Break: look at the hash before the version."""
        def change(data):
            return data.replace(b'"ddprun_format":"1"', b'"ddprun_format":"2"')

        with self.assertRaises(FormatError) as raised:
            safetensors.StateFile(self.write(change=change))
        self.assertNotIsInstance(raised.exception, DamagedError)

    def test_a_search_sets_damaged_ones_aside_and_takes_the_next_older_one(self):
        """A file that was renamed by hand is whole, and stays. Break: take it for damaged."""
        for step in (1, 2, 3):
            self.write(step)
        os.rename(os.path.join(self.folder, folder.checkpoint_name(2)),
                  os.path.join(self.folder, folder.checkpoint_name(9)))  # now its name says another step
        self.write(5, change=lambda data: data[:-1])
        self.write(6, change=lambda data: data.replace(b'format":"1"', b'format":"7"'))
        found = search.CheckpointSearch(0, [self.folder], plan.MAX_STEP, True)
        self.assertEqual(found.next().metadata["step"], "3")
        self.assertEqual(found.next().metadata["step"], "1")
        self.assertIsNone(found.next())
        self.assertEqual(self.names(), [
            "step-000000000001.safetensors", "step-000000000003.safetensors",
            "step-000000000005.safetensors.corrupt", "step-000000000006.safetensors",
            "step-000000000009.safetensors"])
        self.assertIn("it holds step '2', not the one that its name says", found.rejected[0])


    def search(self, run):
        """A search on a host whose bad memory makes each hash wrong."""
        found = search.CheckpointSearch(0, [self.folder], plan.MAX_STEP, True, run)
        while found.next() is not None:
            found.set_aside("its hash is wrong")

    def test_of_damaged_files_only_this_runs_name_it_and_only_its_oldest_go(self):
        """Break: count all renamed files; or read the run only from whole files."""
        run = "5d0c4f6b9e21a873"
        for step in (1, 2, 3):
            self.write(step, {"ddprun_run": "stranger"})
        self.write(4)  # without a run id, as from an older version
        for step in (5, 6):
            self.write(step, {"ddprun_run": run})
        self.write(7, {"ddprun_run": run}, change=lambda data: data[:-1])
        self.write(8, {"ddprun_run": run}, change=lambda data: data[:20] + b"?" + data[21:])
        self.search(run)
        name, names = folder.checkpoint_name, self.names()
        self.assertEqual(names, [name(step) + ".corrupt" for step in (1, 2, 3, 4)]
                         + ["%s.%s.corrupt" % (name(step), run) for step in (5, 6, 7)]
                         + [name(8) + ".corrupt"])
        folder.remove_old_set_aside(self.folder, run)
        self.assertEqual(self.names(), [path for path in names if not path.startswith(name(5))])
        self.assertEqual(len(folder.list_folder(self.folder)[1]), 7, "all are known the next time")

    def test_an_old_damaged_file_that_cannot_be_removed_is_named(self):
        run = "5d0c4f6b9e21a873"
        for step in (1, 2, 3):
            os.mkdir(os.path.join(self.folder, "step-%d.safetensors.%s.corrupt" % (step, run)))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            folder.remove_old_set_aside(self.folder, run)
        self.assertIn("cannot remove %s/step-1.safetensors.%s.corrupt (Is a directory): of this run's"
                      % (self.folder, run), said.getvalue())

    def test_a_name_that_is_taken_gets_a_number(self):
        for run in ("5d0c4f6b9e21a873", "../x"):
            for _ in range(2):
                self.write(1, {"ddprun_run": run})
                self.search(run)
        name = folder.checkpoint_name(1)
        self.assertEqual(self.names(), sorted([
            name + ".5d0c4f6b9e21a873.corrupt", name + ".5d0c4f6b9e21a873.2.corrupt",
            name + ".corrupt", name + ".2.corrupt"]))


class LostBlockTest(StateFolder):
    """A disk that gives EIO for some of a file's bytes."""

    def setUp(self):
        super().setUp()
        for step in (1, 2):
            self.write(step)
        self.newer = os.path.join(self.folder, folder.checkpoint_name(2))
        self.search = search.CheckpointSearch(0, [self.folder], plan.MAX_STEP, True)

    def test_it_is_damage_once_an_older_file_of_the_folder_was_read_whole(self):
        """Break: end the search at EIO, as at any other error."""
        said = io.StringIO()
        with BadDisk({self.newer: 9}), contextlib.redirect_stderr(said):
            self.assertEqual(self.search.next().metadata["step"], "1")
            self.assertTrue(self.search.has_put_off())
            self.assertTrue(self.search.accept())
        self.assertRegex(said.getvalue(), "checkpoint %s is damaged: cannot read its bytes 8 to .*: "
                         "Input/output error, again after an older one was read whole" % self.newer)
        self.assertEqual(self.names(), [folder.checkpoint_name(1), folder.checkpoint_name(2)],
                         "never renamed")

    def test_one_that_has_passed_is_no_damage(self):
        with BadDisk({self.newer: 9}):
            self.assertEqual(self.search.next().metadata["step"], "1")
        self.assertFalse(self.search.accept())
        self.assertEqual(self.search.next().metadata["step"], "2")
        self.assertFalse(self.search.has_put_off())

    def test_without_a_whole_older_file_the_disk_is_unavailable(self):
        with BadDisk({self.newer: 9}):
            self.search.next()
            self.search.set_aside("its hash is wrong")
            with self.assertRaisesRegex(UnavailableError, self.newer) as raised:
                self.search.next()
        self.assertEqual(raised.exception.code, errno.EIO)

    def test_a_file_of_another_folder_says_nothing_of_the_disk(self):
        with tempfile.TemporaryDirectory(prefix="ddprun-python-") as other, BadDisk({self.newer: 9}):
            shutil.copy(os.path.join(self.folder, folder.checkpoint_name(1)), other)
            os.unlink(os.path.join(self.folder, folder.checkpoint_name(1)))
            both = search.CheckpointSearch(0, [self.folder, other], plan.MAX_STEP, True)
            self.assertEqual(both.next().metadata["step"], "1")
            self.assertFalse(both.accept())
            with self.assertRaisesRegex(UnavailableError, self.newer):
                both.next()

    def test_the_bytes_go_from_rank_to_rank_with_the_error(self):
        error = pickle.loads(pickle.dumps(UnavailableError("lost", errno.EIO, 8, 9)))
        self.assertEqual((str(error), error.code, error.offset, error.size), ("lost", errno.EIO, 8, 9))


class Nobody:
    """An owner that lets everybody pass."""

    def __init__(self):
        self._owner = owner.FolderOwner("", None, False)

    def guard(self):
        return self._owner.guard()


class FolderTest(TemporaryFolder):
    def save(self, step, run="run", ancestors=""):
        lineage = plan.Lineage({"DDPRUN_JOB_RUN_ID": run})
        lineage.loaded({"ddprun_run": ancestors})
        image = Staging().copy(step, tensors(), {"step": str(step), **lineage.metadata()})
        folder.save_checkpoint(self.folder, image, Nobody(), lineage)
        return lineage

    def test_only_files_of_this_run_and_of_its_ancestor_are_counted_and_removed(self):
        self.save(1, run="other")
        self.save(2, run="before")
        self.save(3)
        self.save(10)
        lineage = self.save(9, ancestors="before")
        pathlib.Path(self.folder, folder.checkpoint_name(4)).write_text("unreadable")
        folder.remove_old(self.folder, 9, 2, 0, lineage)
        self.assertEqual(self.names(), [folder.checkpoint_name(step) for step in (1, 3, 4, 9, 10)])
        folder.remove_old(self.folder, 9, 1, 3, lineage)
        self.assertEqual(self.names(), [folder.checkpoint_name(step) for step in (1, 3, 4, 9, 10)])
        folder.remove_old(self.folder, 9, 1, 2, lineage)
        self.assertEqual(self.names(), [folder.checkpoint_name(step) for step in (1, 4, 9, 10)])

    def test_a_file_under_another_steps_name_is_neither_counted_nor_removed(self):
        """Break: look only at the run of a file. Then the only other file that can be loaded is removed."""
        for step in (2, 3, 9):
            lineage = self.save(step)
        name = folder.checkpoint_name
        os.rename(os.path.join(self.folder, name(3)), os.path.join(self.folder, name(6)))
        folder.remove_old(self.folder, 9, 2, 0, lineage)
        self.assertEqual(self.names(), [name(step) for step in (2, 6, 9)])

    def test_a_file_is_replaced_by_its_own_run_only(self):
        self.save(1)
        self.save(1)
        with self.assertRaisesRegex(ddprun.CheckpointError, "of another run, 'run'; it is kept"):
            self.save(1, run="other")
        self.assertEqual(self.names(), [folder.checkpoint_name(1)])

    def test_what_a_dead_writer_left_is_removed(self):
        scope = durable_file._pid_scope()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        for name in (f"step-1.{scope}{pid}.tmp", f"step-2.{scope}{os.getppid()}.tmp",
                     f"step-3.elsewhere-1-{pid}.tmp", f"step-4.{scope}{os.getpid()}.tmp"):
            pathlib.Path(self.folder, name).write_text("")
        durable_file.remove_abandoned(self.folder, "step-")
        self.assertEqual(self.names(), sorted([f"step-2.{scope}{os.getppid()}.tmp",
                                               f"step-3.elsewhere-1-{pid}.tmp"]))


def an_owner(run="r1", job="j", requeue_number=0, generation=0, **more):
    made = owner.Owner(job, requeue_number, generation)
    made.run = run
    vars(made).update(more)
    return made


class OwnerTest(TemporaryFolder):
    ENVIRON = {"TORCHELASTIC_RUN_ID": "exp 7", "DDPRUN_EPOCH": "0", "DDPRUN_GENERATION": "2",
               "DDPRUN_JOB_RUN_ID": "5d0c4f6b9e21a873"}

    def test_the_text_is_that_of_the_library(self):
        text = ("0 2 exp 7\nrun=5d0c4f6b9e21a873 host=n3 pid=4711 started=1284332 machine=b/1 "
                "slurm= state=held\n")
        parsed = owner.Owner.parse(text)
        self.assertEqual((parsed.job, parsed.pid, parsed.host), ("exp 7", 4711, "n3"))
        self.assertEqual(parsed.text(), text)
        self.assertTrue(owner.Owner.parse(parsed.text(released=True)).released)
        self.assertEqual(owner.Owner.parse("1 0 old\n").run, "")
        for broken in ("", "1 0 j", "x 0 j\n", "1\n"):
            self.assertIsNone(owner.Owner.parse(broken))

    def test_what_another_user_has_written_does_not_reach_a_terminal(self):
        """Break: return the text as it is."""
        text = "0 2 j\x1b[2J\x9b1m\u00e4\nrun=r\x07 host=n\x7f3 pid=7 started= machine= slurm= state=held\n"
        self.assertEqual(str(owner.Owner.parse(text)),
                         "requeue number 0, generation 2, of job j?[2J?1m\u00e4 (run r?, process 7 on n?3)")

    def test_a_job_without_an_id_is_not_called_none(self):
        self.assertEqual(str(an_owner(job="none")),
                         "requeue number 0, generation 0, of the job (run r1, process 0 on )")

    def test_who_may_have_the_folder(self):
        own = an_owner(requeue_number=1, generation=3)
        for other, silent, gone, verdict in (
                (None, 0, False, "take"),
                (an_owner(requeue_number=1, generation=2), 0, False, "take"),
                (an_owner(requeue_number=1, generation=4), 0, False, "refuse"),
                (an_owner("r2", requeue_number=0), 0, False, "take"),
                (an_owner("r2", requeue_number=2), 0, False, "refuse"),
                (an_owner("r2", "k"), 0, False, "wait"),
                (an_owner("r2", "k"), 30, False, "take"),
                (an_owner("r2", "k"), 0, True, "take"),
                (an_owner("r2", "k"), 29.9, False, "wait"),
                (an_owner("r2", "k", released=True), 0, False, "take")):
            self.assertEqual(owner.judge_claim(own, other, silent, gone, False), verdict, other)
        self.assertEqual(owner.judge_claim(own, an_owner("r2", "k"), 0, False, True), "take")

    def test_another_job_of_slurm_with_this_name_is_no_life_of_this_job(self):
        """Break: compare only the names. Then a requeued job takes the folder of a job that still runs."""
        own = an_owner(requeue_number=1, slurm="17")
        for requeue_number in (0, 2):
            other = an_owner("r2", requeue_number=requeue_number, slurm="18")
            self.assertEqual(owner.judge_claim(own, other, 0, False, False), "wait")
        self.assertEqual(owner.judge_claim(own, an_owner("r2", slurm="17"), 0, False, False), "take")

    def test_a_claim_names_this_process_and_a_release_frees_the_folder(self):
        claim = owner.FolderOwner(self.folder, owner.Owner.of_process(self.ENVIRON), False)
        self.assertTrue(claim.try_claim())
        held = owner.Owner.parse(pathlib.Path(self.folder, "owner").read_text())
        self.assertEqual((held.pid, held.life(), held.released), (os.getpid(), (0, 2), False))
        claim.release()
        held = owner.Owner.parse(pathlib.Path(self.folder, "owner").read_text())
        self.assertTrue(held.released)

    def test_the_owner_of_a_folder_answers_also_after_a_second_claim(self):
        """Break: keep the Event of the first claim. Then another training takes the folder after 30 s."""
        path = os.path.join(self.folder, "owner")
        claim = owner.FolderOwner(self.folder, owner.Owner.of_process(self.ENVIRON), False)
        with unittest.mock.patch.object(owner, "_REFRESH_S", 0.01):
            for _ in range(2):
                with claim.guard():
                    os.utime(path, (1000, 1000))
                deadline = time.monotonic() + 10
                while os.stat(path).st_mtime < 2000:
                    self.assertLess(time.monotonic(), deadline, "nobody refreshes it")
                    time.sleep(0.01)
                claim.release()

    def test_who_holds_the_lock_is_named(self):
        """Break: print the message of errno."""
        claim = owner.FolderOwner(self.folder, owner.Owner.of_process(self.ENVIRON), False)
        self.assertTrue(claim.try_claim())
        holder = subprocess.Popen(["flock", "--no-fork", os.path.join(self.folder, "owner"), "sleep", "600"])
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        path = os.path.join(self.folder, "owner")
        while not process.lock_holder(path):
            time.sleep(0.01)
        with unittest.mock.patch.object(owner, "_LOCK_S", 0):
            with self.assertRaisesRegex(
                    ddprun.CheckpointError, r"the lock of the checkpoint folder %s was not free for 0 s: "
                    r"process %d \(sleep\) on this host has it; the folder belongs to requeue number 0, "
                    r"generation 2, of job exp 7 " % (self.folder, holder.pid)):
                with claim.guard():
                    self.fail("it may not change the folder")

    def test_one_that_is_heard_meanwhile_is_not_robbed(self):
        path = pathlib.Path(self.folder, "owner")
        path.write_text(an_owner("r2", "k", host="n9", pid=7).text())
        claim = owner.FolderOwner(self.folder, owner.Owner.of_process(self.ENVIRON), False)
        self.assertFalse(claim.try_claim())
        later = time.time() + 1
        os.utime(path, (later, later))
        with self.assertRaisesRegex(owner.FolderTaken, r"run r2, process 7 on n9\), which lives"):
            claim.try_claim()

    def test_a_later_generation_stops_the_saves_of_an_earlier_one(self):
        claim = owner.FolderOwner(self.folder, owner.Owner.of_process(self.ENVIRON), False)
        with claim.guard():
            pass
        later = owner.FolderOwner(
            self.folder, owner.Owner.of_process({**self.ENVIRON, "DDPRUN_GENERATION": "3"}), False)
        self.assertTrue(later.try_claim())
        with self.assertRaises(owner.FolderTaken):
            with claim.guard():
                self.fail("it may not change the folder")

    def test_a_process_that_was_forked_meanwhile_does_not_keep_the_lock(self):
        """A DataLoader forks its workers like this. Break: close the file without unlocking it."""
        claim = owner.FolderOwner(self.folder, owner.Owner.of_process(self.ENVIRON), False)
        end, other_end = os.pipe()
        with claim.guard():
            pid = os.fork()
            if pid == 0:
                os.close(other_end)
                os.read(end, 1)  # until the parent closes its end
                os._exit(0)
        begin = time.monotonic()
        with claim.guard():
            pass
        self.assertLess(time.monotonic() - begin, 5)
        os.close(other_end)
        os.close(end)
        os.waitpid(pid, 0)


class RestoreOrderTest(unittest.TestCase):
    ENVIRON = {"DDPRUN_RESTORE_TIER": "memory", "DDPRUN_RESTORE_STEP": "8", "DDPRUN_RESTORE_RANK": "1",
               "DDPRUN_RESTORE_EPOCH": "0", "DDPRUN_RESTORE_GENERATION": "2",
               "TORCHELASTIC_RUN_ID": "j", "DDPRUN_EPOCH": "0", "DDPRUN_GENERATION": "3"}

    def test_only_states_of_the_timeline_are_allowed(self):
        order = plan.read_order(self.ENVIRON, 2)
        self.assertTrue(order.of_this_run)

        def allowed(step, generation, job="j"):
            return order.allows({"step": str(step), "ddprun_job": job, "ddprun_epoch": "0",
                                 "ddprun_generation": str(generation)})

        self.assertTrue(allowed(8, 2))
        self.assertFalse(allowed(8, 1))
        self.assertFalse(allowed(8, 2, "k"))
        self.assertTrue(allowed(7, 1))
        self.assertTrue(allowed(7, 9, "k"))
        self.assertFalse(allowed(7, 3))

    def test_a_training_that_begins_anew_loads_no_file_of_another_run(self):
        """Break: is_from_before() returns False."""
        older = {"step": "7", "ddprun_job": "j", "ddprun_epoch": "0", "ddprun_generation": "1"}

        def allowed(run, **environ):
            order = plan.read_order({**self.ENVIRON, "DDPRUN_JOB_RUN_ID": "aa", **environ}, 2)
            return order.allows({**older, "ddprun_run": run})

        self.assertTrue(allowed("bb"))
        self.assertFalse(allowed("bb", DDPRUN_ANEW="1"))
        self.assertTrue(allowed("aa", DDPRUN_ANEW="1"))
        self.assertFalse(allowed("bb", DDPRUN_ANEW="1", DDPRUN_RESTORE_GENERATION="-1"))
        self.assertTrue(allowed("bb", DDPRUN_ANEW="1", DDPRUN_EPOCH="1"), "a requeued job")

    def test_of_an_unseen_checkpoint_only_that_one_is_allowed(self):
        unseen = plan.read_unseen({**self.ENVIRON, "DDPRUN_RESTORE_UNSEEN": "9 1 0 2"}, 2)
        self.assertEqual((unseen.step, unseen.rank), (9, 1))
        made = {"step": "9", "ddprun_job": "j", "ddprun_epoch": "0", "ddprun_generation": "2"}
        self.assertTrue(unseen.allows(made))
        self.assertFalse(unseen.allows({**made, "ddprun_generation": "1"}))
        anew = {**self.ENVIRON, "DDPRUN_RESTORE_UNSEEN": "9 1 0 2", "DDPRUN_ANEW": "1", "DDPRUN_JOB_RUN_ID": "aa"}
        self.assertFalse(plan.read_unseen(anew, 2).allows(made), "a file of another run")
        self.assertIsNone(plan.read_unseen(self.ENVIRON, 2))
        for text in ("", "9", "9 2 0 2", "-1 1 0 2", "9 x 0 2"):
            with self.assertRaisesRegex(ValueError, "DDPRUN_RESTORE_UNSEEN"):
                plan.read_unseen({"DDPRUN_RESTORE_UNSEEN": text}, 2)

    def test_what_is_malformed_is_named(self):
        for name, value in (("TIER", "disk"), ("STEP", "-1"), ("STEP", "x"), ("RANK", "2")):
            with self.assertRaisesRegex(ValueError, "DDPRUN_RESTORE_" + name):
                plan.read_order({**self.ENVIRON, "DDPRUN_RESTORE_" + name: value}, 2)
        self.assertIsNone(plan.read_order({}, 2))
        self.assertTrue(plan.read_order({"DDPRUN_RESTORE_TIER": "none"}, 2).from_the_start)


class SnapshotTest(TemporaryFolder):
    def publish(self, slots, step):
        return slots.publish(Staging().copy(step, tensors(), {"step": str(step)}))

    def test_two_files_take_turns_and_the_newest_is_whole(self):
        slots = snapshots.SnapshotSlots(self.folder, None)
        for step in (1, 2, 3):
            path = self.publish(slots, step)
            self.assertEqual(os.path.basename(path), folder.checkpoint_name(step))
            safetensors.StateFile(path).close()
        self.assertEqual(self.names(), [folder.checkpoint_name(2), folder.checkpoint_name(3)])

    def test_a_successor_keeps_what_it_resumed_from_until_there_is_a_newer_one(self):
        """Break: give SnapshotSlots no step to keep."""
        slots = snapshots.SnapshotSlots(self.folder, None)
        self.publish(slots, 4)
        self.publish(slots, 5)
        successor = snapshots.SnapshotSlots(self.folder, 4)
        self.assertEqual(self.names(), ["slot-0.tmp", folder.checkpoint_name(4)])
        self.publish(successor, 5)
        self.assertEqual(self.names(), [folder.checkpoint_name(4), folder.checkpoint_name(5)])
        self.publish(successor, 6)
        self.assertEqual(self.names(), [folder.checkpoint_name(5), folder.checkpoint_name(6)])

    def test_where_another_node_had_the_state_the_newest_before_is_kept(self):
        """Break: keep only the state of keep_step."""
        slots = snapshots.SnapshotSlots(self.folder, None)
        self.publish(slots, 4)
        self.publish(slots, 5)
        successor = snapshots.SnapshotSlots(self.folder, 6)
        self.assertEqual(self.names(), ["slot-0.tmp", folder.checkpoint_name(5)])
        self.publish(successor, 7)
        self.assertEqual(self.names(), [folder.checkpoint_name(5), folder.checkpoint_name(7)])

    def test_the_same_step_again_takes_the_place_of_the_old_file(self):
        slots = snapshots.SnapshotSlots(self.folder, None)
        for step in (1, 1, 2):
            self.publish(slots, step)
        self.assertEqual(self.names(), [folder.checkpoint_name(1), folder.checkpoint_name(2)])

    def test_the_room_is_what_the_limits_of_the_cgroups_leave(self):
        """Break: end the loop before the root, which is a container's own cgroup."""
        def limit(group, **files):
            os.makedirs(os.path.join(self.folder, "cgroups", group), exist_ok=True)
            for name, text in files.items():
                path = os.path.join(self.folder, "cgroups", group, "memory." + name)
                pathlib.Path(path).write_text(text)

        def room():
            return memory_room.memory_room(self.folder, os.path.join(self.folder, "cgroups"),
                                           os.path.join(self.folder, "self"))

        own = pathlib.Path(self.folder, "self")
        own.write_text("0::/\n")
        limit("", max="7000\n", current="6500\n")
        self.assertEqual(room(), 500)
        limit("", stat="anon 1\ninactive_file 2500\n")
        self.assertEqual(room(), 3000)
        own.write_text("0::/a/b\n")
        limit("a", max="9\n", current="4\n")
        self.assertEqual(room(), 5)

    def test_what_does_not_fit_is_refused_with_the_sizes(self):
        slots = snapshots.SnapshotSlots(self.folder, None)
        slots.check_room(1 << 10)
        with self.assertRaisesRegex(ddprun.CheckpointError, "two snapshots of .* MiB need"):
            slots.check_room(1 << 60)

    def test_snapshots_take_a_share_of_the_time(self):
        schedule = snapshots.SnapshotSchedule(0, 0)
        self.assertEqual(schedule.steps(), 1)
        for _ in range(50):
            schedule.step_took(0.01)
        schedule.snapshot_took(0.003, 0.002)
        self.assertAlmostEqual(schedule.steps(), 50, delta=1)
        self.assertEqual(snapshots.SnapshotSchedule(7, 0).steps(), 7)


if __name__ == "__main__":
    unittest.main()
