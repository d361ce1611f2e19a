"""ddprun.record_collectives(): what the agent reads of the collectives of torch.distributed."""

import fcntl
import inspect
import mmap
import os
import socket
import sys
import tempfile
import time
import unittest
from unittest import mock

import launchers
from fake_agent import HANG, SOURCES, FakeAgent, read_all

F_ADD_SEALS, SHRINK_AND_GROW = 1033, 0x2 | 0x4
OPERATIONS = ("other", "broadcast", "all_reduce", "reduce", "all_gather", "gather", "scatter",
              "reduce_scatter", "all_to_all", "barrier")

try:
    import torch
    import torch.distributed as dist
except ImportError:
    torch = None
else:
    sys.path.append(str(SOURCES))
    from _ddprun_state import collectives


def make_page(seals=SHRINK_AND_GROW):
    descriptor = os.memfd_create("page", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, 4096)
    fcntl.fcntl(descriptor, F_ADD_SEALS, seals)
    return descriptor


class Reader:
    """Reads a page by the layout of worker/contract/progress_page.h, without the writer's
    constants."""

    def __init__(self, descriptor):
        self.words = memoryview(mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ)).cast("Q")

    def header(self):
        return hex(self.words[0]), self.words[1], self.words[2], self.words[3]

    def record(self, group, second):
        at = 7 + 21 + 22 * group + (11 if second else 0)
        copy = at + 1 + 5 * (self.words[at] & 1)
        return list(self.words[copy:copy + 5])

    def entered(self, group=0):
        number, operation, size, _, _ = self.record(group, False)
        return number, OPERATIONS[operation], size

    def completed(self, group=0):
        number, operation, size, _, finished = self.record(group, True)
        return number, OPERATIONS[operation], size, finished

    def recent(self, group=0):
        """{number: (operation, bytes, completed)}"""
        at = 7 + 21 + 8 * 22 + 10 + 8 * 9 + 12 * group
        found = {}
        for number, form, size in zip(*(self.words[at + i:at + 12:3] for i in range(3))):
            if number:
                found[number] = (OPERATIONS[form & 0xFFFF], size, bool(form & 0x10000))
        return found


class Agent:
    """Takes the place of the connection to the agent."""

    def __init__(self, page):
        self.page, self.asked, self.silent = page, 0, False

    def speaks(self):
        return not self.silent

    def ask_for_page(self):
        self.asked += 1

    def take_page(self, patience):
        page, self.page = self.page, None
        return page


class OneRank(unittest.TestCase):
    """One rank, in this process."""

    def setUp(self):
        launchers.require_torch(self)
        self.group()
        self.page = make_page()
        self.reader = Reader(self.page)
        self.agent = Agent(os.dup(self.page))
        originals = {name: getattr(dist, name) for name in collectives.FUNCTIONS}
        self.addCleanup(lambda: [setattr(dist, *item) for item in originals.items()])
        self.addCleanup(os.close, self.page)
        self.originals = originals

    def group(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        dist.init_process_group("gloo", init_method=f"file://{folder.name}/store", rank=0, world_size=1)
        self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())

    def record(self):
        collectives.record(dist, lambda: self.agent)


class RecordTest(OneRank):
    def test_each_function_is_recorded_with_its_operation_and_bytes(self):
        self.record()
        one = torch.ones(3)
        calls = (
            (lambda: dist.broadcast(one, 0), "broadcast", 12),
            (lambda: dist.all_reduce(one), "all_reduce", 12),
            (lambda: dist.all_reduce(tensor=torch.ones(5, dtype=torch.int64)), "all_reduce", 40),
            (lambda: dist.reduce(one, dst=0), "reduce", 12),
            (lambda: dist.all_gather([torch.ones(3)], one), "all_gather", 12),
            (lambda: dist.all_gather_into_tensor(torch.ones(3), one), "all_gather", 12),
            (lambda: dist.gather(one, [torch.ones(3)]), "gather", 12),
            (lambda: dist.scatter(one, [torch.ones(3)]), "scatter", 12),
            (lambda: dist.reduce_scatter(one, [torch.ones(3)]), "reduce_scatter", 12),
            (lambda: dist.reduce_scatter_tensor(one, input=torch.ones(3)), "reduce_scatter", 12),
            (lambda: dist.all_to_all([one], [torch.ones(3)]), "all_to_all", 12),
            (lambda: dist.all_to_all_single(one, torch.ones(3)), "all_to_all", 12),
            (dist.barrier, "barrier", 0))
        self.assertEqual(len(calls), len(collectives.FUNCTIONS) + 1)
        for number, (call, operation, size) in enumerate(calls, start=1):
            try:
                call()
            except RuntimeError:
                pass  # in some versions, Gloo does not have this collective
            self.assertEqual(self.reader.entered(), (number, operation, size))
            self.assertEqual(self.reader.completed(), (number, operation, size, number))
        self.assertEqual(list(self.reader.recent()), [12, 13, 10, 11])
        self.assertEqual(self.reader.header(), ("0x3150676f72507264", 2, 1632, 0))
        self.assertEqual(self.reader.words[7 + 21 + 8 * 22 + 10 + 8 * 9 + 8 * 12], 1)
        self.assertEqual(self.reader.words[4], 2 * 13, "moves")
        self.assertEqual(self.agent.asked, 1)

    def test_it_is_entered_before_it_begins(self):
        """Break: enter after the call."""
        seen = []

        def all_reduce(tensor, op=None, group=None, async_op=False):
            seen.append((self.reader.entered(), self.reader.completed()))

        with mock.patch.object(dist, "all_reduce", all_reduce):
            self.record()
            dist.all_reduce(torch.ones(2))
        self.assertEqual(seen, [((1, "all_reduce", 8), (0, "other", 0, 0))])
        self.assertEqual(self.reader.completed(), (1, "all_reduce", 8, 1))

    def test_names_signatures_and_results_stay(self):
        self.record()
        for name, original in self.originals.items():
            function = getattr(dist, name)
            self.assertIsNot(function, original)
            self.assertEqual((function.__name__, function.__qualname__, function.__module__, function.__doc__),
                             (original.__name__, original.__qualname__, original.__module__, original.__doc__))
            self.assertEqual(inspect.signature(function), inspect.signature(original))
        tensor = torch.full((2,), 7.0)
        self.assertIsNone(dist.all_reduce(tensor))
        self.assertEqual(tensor.tolist(), [7.0, 7.0])
        self.assertTrue(hasattr(dist.all_reduce(tensor, async_op=True), "wait"))

    def test_twice_is_once(self):
        self.record()
        once = dist.all_reduce
        self.record()
        self.assertIs(dist.all_reduce, once)
        dist.all_reduce(torch.ones(1))
        self.assertEqual(self.reader.entered(), (1, "all_reduce", 4))

    def test_a_name_imported_before_works_and_is_not_seen(self):
        from torch.distributed import all_reduce

        self.record()
        all_reduce(torch.ones(1))
        dist.barrier()
        self.assertEqual(self.reader.entered(), (1, "barrier", 0))

    def test_an_error_is_the_functions_own(self):
        self.record()
        with self.assertRaisesRegex(Exception, "tensor"):
            dist.all_reduce("no tensor")
        with self.assertRaises(TypeError):
            dist.all_reduce()
        self.assertEqual(self.reader.entered(), (0, "other", 0))
        dist.destroy_process_group()
        with self.assertRaisesRegex(Exception, "[Dd]efault process group"):
            dist.all_reduce(torch.ones(1))

    def test_torch_compile_finds_torchs_own_function(self):
        """torch.compile exists from torch 2 on. Break: leave is_compiling() out."""
        if not hasattr(getattr(torch, "compiler", None), "is_compiling"):
            self.skipTest("this torch does not compile")
        self.record()

        def double(tensor):
            dist.all_reduce(tensor)
            return tensor * 2

        compiled = torch.compile(double, fullgraph=True, backend="eager")
        self.assertEqual(compiled(torch.ones(2)).tolist(), [2.0, 2.0])

    def test_lists_of_uneven_sizes_are_not_compared(self):
        self.record()
        try:
            dist.all_gather([torch.ones(3), torch.ones(4)], torch.ones(3))
        except RuntimeError:
            pass
        self.assertEqual(self.reader.entered(), (1, "other", 12))

    def test_groups_have_the_number_that_torch_gives_them(self):
        dist.new_group([0])
        mine, others = dist.new_group([0]), dist.GroupMember.NON_GROUP_MEMBER
        self.record()
        dist.barrier(group=mine)
        dist.all_reduce(torch.ones(1), group=mine)
        dist.all_reduce(torch.ones(4), group=dist.group.WORLD)
        self.assertEqual(self.reader.entered(2), (2, "all_reduce", 4))
        self.assertEqual(self.reader.entered(1), (0, "other", 0))
        self.assertEqual(self.reader.entered(0), (1, "all_reduce", 16))
        dist.all_reduce(torch.ones(1), group=others)  # torch warns, and does nothing
        self.assertEqual(self.reader.entered(0), (1, "all_reduce", 16))

    def test_of_too_many_groups_the_last_only_count_as_moves(self):
        groups = [dist.new_group([0]) for _ in range(8)]
        self.record()
        for group in groups:
            dist.barrier(group=group)
        self.assertEqual([self.reader.entered(i)[0] for i in range(8)], [0] + [1] * 7)
        self.assertEqual(self.reader.words[4], 2 * 7 + 1, "moves")

    def test_a_group_made_again_counts_from_one(self):
        self.record()
        dist.barrier()
        dist.barrier()
        dist.destroy_process_group()
        self.group()
        dist.all_reduce(torch.ones(1))
        self.assertEqual(self.reader.recent(), {1: ("all_reduce", 4, True)})
        self.assertEqual(self.reader.completed(), (1, "all_reduce", 4, 1))

    def test_without_a_page_everything_works_and_a_late_page_gets_all(self):
        late, self.agent.page = self.agent.page, None
        self.record()
        dist.all_reduce(torch.ones(1))
        self.assertEqual(self.reader.entered(), (0, "other", 0))
        self.agent.page = late
        dist.barrier()
        self.assertEqual(self.reader.recent(), {1: ("all_reduce", 4, True), 2: ("barrier", 0, True)})
        self.assertEqual(self.agent.asked, 1)

    def test_a_page_that_could_shrink_is_refused(self):
        bad = make_page(seals=0)
        self.agent.page = os.dup(bad)
        self.record()
        dist.barrier()
        self.assertEqual(Reader(bad).header()[0], "0x0")
        os.close(bad)

    def test_a_process_that_does_not_speak_records_nothing(self):
        self.agent.silent = True
        self.record()
        dist.barrier()
        self.assertEqual((self.agent.asked, self.reader.header()[0]), (0, "0x0"))

    def test_a_forked_process_does_not_write_its_parents_page(self):
        """Break: leave register_at_fork() out."""
        self.record()
        dist.barrier()
        child = os.fork()
        if child == 0:
            self.agent.silent = True  # as ddprun.py does
            dist.broadcast(torch.ones(1), 0, async_op=True)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.reader.entered(), (1, "barrier", 0))


class Work:
    def __init__(self):
        self.over = False

    def is_completed(self):
        return self.over


class AsyncTest(OneRank):
    """A collective that continues in the background."""

    def setUp(self):
        super().setUp()
        self.works = []

        def all_reduce(tensor, op=None, group=None, async_op=False):
            self.works.append(Work())
            return self.works[-1] if async_op else None

        patch = mock.patch.object(dist, "all_reduce", all_reduce)
        patch.start()
        self.addCleanup(patch.stop)
        self.record()

    def states(self):
        return {number: completed for number, (_, _, completed) in self.reader.recent().items()}

    def await_states(self, expected):
        until = time.monotonic() + HANG
        while self.states() != expected and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.states(), expected)

    def test_it_is_over_when_the_work_is(self):
        """This also holds if the program makes no further call. Break: do not start the thread."""
        dist.all_reduce(torch.ones(1), async_op=True)
        self.assertEqual(self.states(), {1: False})
        self.works[0].over = True
        self.await_states({1: True})

    def test_the_next_call_sees_it(self):
        dist.all_reduce(torch.ones(1), async_op=True)
        dist.all_reduce(torch.ones(1), async_op=True)
        self.works[1].over = True
        dist.barrier()
        self.assertEqual(self.states(), {1: False, 2: True, 3: True})
        self.assertEqual(self.reader.completed()[3], 2)

    def test_a_work_that_the_program_drops_is_over(self):
        dist.all_reduce(torch.ones(1), async_op=True)
        self.works.clear()
        dist.barrier()
        self.assertEqual(self.states(), {1: True, 2: True})

    def test_a_work_that_failed_is_over(self):
        dist.all_reduce(torch.ones(1), async_op=True)
        self.works[0].is_completed = mock.Mock(side_effect=RuntimeError("aborted"))
        dist.barrier()
        self.assertEqual(self.states(), {1: True, 2: True})


SCRIPT = """\
import tempfile
import torch
import torch.distributed as dist
dist.init_process_group('gloo', init_method='file://' + tempfile.mktemp(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
input()  # by now the page has been sent
dist.broadcast(torch.ones(3), 0, async_op=True).wait()
dist.barrier()
"""


class UnderAnAgentTest(unittest.TestCase):
    """End to end: another process asks the agent for the page, and gets it."""

    def page_of(self, source, auto_step=False):
        launchers.require_torch(self)
        page = make_page()
        self.addCleanup(os.close, page)
        with FakeAgent() as agent:
            if auto_step:
                agent.add_auto_step()
            with agent.start(source, DDPRUN_GENERATION="3", GLOO_SOCKET_IFNAME="lo") as worker, (
                    agent.accept()) as connection:
                packets = []
                while "PROGRESS=1" not in packets:
                    packets.append(connection.recv(8192).decode())
                    self.assertTrue(packets[-1], packets)
                socket.send_fds(connection, [b"PROGRESS=2"], [page])
                _, err = worker.communicate("\n", timeout=HANG)
                # Newer versions of Gloo say which ranks are connected.
                err = "".join(line for line in err.splitlines(True) if not line.startswith("[./gloo/"))
                self.assertEqual((worker.returncode, err), (0, ""))
                packets += read_all(connection)
        self.assertEqual(packets.count("PROGRESS=1"), 1)
        return Reader(page)

    def check(self, reader):
        self.assertEqual(reader.recent(), {1: ("all_reduce", 8, True), 2: ("broadcast", 12, True),
                                           3: ("barrier", 0, True)})
        self.assertEqual(reader.header()[3], 3, "generation")

    def test_a_program_that_calls_it(self):
        self.check(self.page_of("import ddprun\nddprun.record_collectives()\n" + SCRIPT))

    def test_an_unmodified_program_with_auto_step(self):
        self.check(self.page_of(SCRIPT, auto_step=True))

    def test_without_ddprun_nothing_is_replaced(self):
        launchers.require_torch(self)
        with FakeAgent() as agent:
            out, connections = agent.run(
                self, "import ddprun, torch.distributed as dist\n"
                "before = dist.all_reduce\n"
                "ddprun.record_collectives()\n"
                "print(dist.all_reduce is before)\n", DDPRUN_CONTROL_SOCKET="")
        self.assertEqual((out, connections), ("True\n", []))


if __name__ == "__main__":
    unittest.main()
