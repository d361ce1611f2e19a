"""Records the collectives of torch.distributed on this worker's progress page:
ddprun.record_collectives().

worker/contract/progress_page.h has the layout of the page. The agent reads it at any time, also
after this process has ended.
"""
import fcntl
import functools
import inspect
import mmap
import os
import sys
import threading
import time
import weakref

torch = None  # record() sets it; torch.compile needs a global variable

MAGIC, VERSION, PAGE_BYTES = 0x3150676F72507264, 2, 4096
FIRST_BYTES = 1632  # kProgressFirstBytes
# Places on the page, in words of 8 bytes.
MOVES, GENERATION, GROUPS, RECENT, ONLY_COLLECTIVES = 4, 3, 28, 286, 382
GROUP_WORDS, RECORD_WORDS = 22, 5
SLOTS, NEWEST = 8, 4  # process groups, and collectives of each
COMPLETED = 1 << 16
F_GET_SEALS, SEALS = 1034, 0x2 | 0x4  # seals of a file that can neither shrink nor grow

OTHER = 0
# For each function: its ProgressOperation, and the argument that this rank contributes. The bytes
# of that argument are recorded.
FUNCTIONS = {
    "broadcast": (1, "tensor"), "all_reduce": (2, "tensor"), "reduce": (3, "tensor"),
    "all_gather": (4, "tensor"), "all_gather_into_tensor": (4, "input_tensor"),
    "gather": (5, "tensor"), "scatter": (6, "tensor"),
    "reduce_scatter": (7, "input_list"), "reduce_scatter_tensor": (7, "input"),
    "all_to_all": (8, "input_tensor_list"), "all_to_all_single": (8, "input"),
    "barrier": (9, None)}
# Arguments that are lists of tensors. If these tensors have different sizes, the bytes that the
# ranks contribute may differ, too.
LISTS = {"all_gather": "tensor_list", "reduce_scatter": "input_list"}

FIRST_WAIT_S = 0.1  # how long the first collective waits for the agent's page
ASK_S = 10.0  # after this time the agent's page is not expected any more
POLL_S = 0.5  # between two looks at asynchronous collectives
MOST_PENDING = 64  # asynchronous collectives


class Page:
    """Writes the words of a page. Only one thread at a time may call. The agent may read at any
    time: the CPU stores a word with one instruction."""

    def __init__(self, generation):
        self.words = memoryview(bytearray(PAGE_BYTES)).cast("Q")
        self.words[1], self.words[2] = VERSION, FIRST_BYTES
        self.words[GENERATION] = generation
        self.words[ONLY_COLLECTIVES] = 1
        self.words[0] = MAGIC

    def move_to(self, descriptor):
        """Copies this page to the agent's page, and writes there from now on. Refuses a page that
        somebody could shrink: returns False. Closes the descriptor."""
        try:
            if fcntl.fcntl(descriptor, F_GET_SEALS) & SEALS != SEALS:
                return False
            words = memoryview(mmap.mmap(descriptor, PAGE_BYTES)).cast("Q")
        except (OSError, ValueError):
            return False
        finally:
            os.close(descriptor)
        words[1:] = self.words[1:]
        words[0] = self.words[0]
        self.words = words
        return True

    def move(self):
        self.words[MOVES] += 1

    def publish(self, at, values):
        """A record has two copies. The lowest bit of its version selects the complete copy."""
        words = self.words
        version = words[at] + 1
        first = at + 1 + (version & 1) * RECORD_WORDS
        for i, value in enumerate(values):
            words[first + i] = value
        words[at] = version

    def entered(self, slot, number, operation, size):
        self.publish(GROUPS + GROUP_WORDS * slot,
                     (number, operation, size, time.monotonic_ns(), 0))
        at = RECENT + 3 * (NEWEST * slot + number % NEWEST)
        self.words[at] = 0
        self.words[at + 1] = operation
        self.words[at + 2] = size
        self.words[at] = number

    def completed(self, slot, number, operation, size, finished):
        self.publish(GROUPS + GROUP_WORDS * slot + 1 + 2 * RECORD_WORDS,
                     (number, operation, size, time.monotonic_ns(), finished))
        at = RECENT + 3 * (NEWEST * slot + number % NEWEST)
        if self.words[at] == number:
            self.words[at + 1] |= COMPLETED

    def forget(self, slot):
        at = GROUPS + GROUP_WORDS * slot
        self.publish(at, (0,) * RECORD_WORDS)
        self.publish(at + 1 + 2 * RECORD_WORDS, (0,) * RECORD_WORDS)
        for i in range(NEWEST):
            self.words[RECENT + 3 * (NEWEST * slot + i)] = 0


class Slot:
    """A process group, and its counts."""

    def __init__(self):
        self.group = lambda: None  # weak reference
        self.number = 0
        self.finished = 0


class Recorder:
    """Records the collectives that this process enters. Any thread may call. enter() and leave()
    never raise."""

    def __init__(self, agent_of):
        self._agent_of = agent_of  # returns the connection to the agent; a fork replaces that
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self):
        """Runs in each forked process too, because it must not write to its parent's page."""
        self._lock = threading.RLock()  # a signal handler may call while its thread holds it
        self._page = None
        self._is_agents = False
        self._until = None  # when to give up the wait for the agent's page
        self._off = False
        self._slots = [Slot() for _ in range(SLOTS)]
        self._pending = []  # (weak reference to the Work, slot's index, its group, call)
        self._poller = None
        self._has_pending = threading.Event()

    def enter(self, group, operation, size):
        """A collective begins. Returns a token for leave(), or None if it is not recorded."""
        if self._off:
            return None
        with self._lock:
            try:
                if not self._has_page():
                    return None
                if self._pending:
                    self._poll()
                self._page.move()
                slot = self._slot_of(group)
                if slot is None:
                    return None
                counts = self._slots[slot]
                counts.number += 1
                call = (counts.number, operation, size)
                self._page.entered(slot, *call)
                return slot, counts.group, call
            except Exception:
                self._off = True
                return None

    def leave(self, token, work):
        """The function has returned. `work` is not None if the collective goes on in the
        background."""
        with self._lock:
            try:
                if work is not None and not is_over(work):
                    self._pending.append((weakref.ref(work), token))
                    while len(self._pending) > MOST_PENDING:
                        self._complete(self._pending.pop(0)[1])
                    self._start_poller()
                else:
                    self._complete(token)
            except Exception:
                self._off = True

    def _complete(self, token):
        slot, group, call = token
        counts = self._slots[slot]
        self._page.move()
        if counts.group is group:
            counts.finished += 1
            self._page.completed(slot, *call, counts.finished)

    def _poll(self):
        """Records the asynchronous collectives that are over. If the program has dropped a Work,
        its collective counts as over: either it is over, or nobody waits for it."""
        waiting = []
        for work, token in self._pending:
            if is_over(work()):
                self._complete(token)
            else:
                waiting.append((work, token))
        self._pending = waiting
        if not waiting:
            self._has_pending.clear()

    def _start_poller(self):
        self._has_pending.set()
        if self._poller is None:
            self._poller = threading.Thread(target=self._run, name="ddprun", daemon=True)
            self._poller.start()

    def _run(self):
        while not self._off:
            self._has_pending.wait()
            time.sleep(POLL_S)
            with self._lock:
                try:
                    self._poll()
                except Exception:
                    self._off = True

    def _has_page(self):
        """Returns True if there is a page to write to. Until the agent's page comes, this process
        writes to a page of its own."""
        if self._is_agents:
            return True
        agent = self._agent_of()
        if self._page is None:
            if not agent.speaks():
                self._off = True
                return False
            self._page = Page(int(os.environ.get("DDPRUN_GENERATION", "0")))
            agent.ask_for_page()
            self._until = time.monotonic() + ASK_S
            descriptor = agent.take_page(FIRST_WAIT_S)
        elif self._until is None:
            return True
        else:
            descriptor = agent.take_page(0)
        if descriptor is not None:
            self._is_agents = self._page.move_to(descriptor)
        if self._is_agents or time.monotonic() > self._until:
            self._until = None
        return True

    def _slot_of(self, group):
        """Returns the place of a group on the page. It is the number that torch has given to the
        group, which is the same on all ranks. None: the group has no number, or one above 7."""
        c10d = sys.modules["torch.distributed.distributed_c10d"]
        default = c10d._get_default_group()
        if group is None or group is default:
            slot, group = 0, default
        else:
            name = c10d._pg_names.get(group, "")
            slot = int(name) if name.isdigit() else 0
            if not 0 < slot < SLOTS:
                return None
        counts = self._slots[slot]
        if counts.group() is not group:  # the first use, or the earlier one was destroyed
            counts.number = counts.finished = 0
            counts.group = weakref.ref(group)
            self._page.forget(slot)
        return slot


def is_over(work):
    """`work`: None if the program has dropped it."""
    try:
        return work is None or work.is_completed()
    except Exception:
        return True  # it has failed


def bytes_of(value):
    """The bytes of a tensor, or of a list of tensors."""
    if isinstance(value, (list, tuple)):
        return sum(map(bytes_of, value))
    return value.numel() * value.element_size()


def are_uneven(tensors):
    return len({tensor.numel() for tensor in tensors}) > 1


class Call:
    """Finds the facts to record in the arguments of one function."""

    def __init__(self, name, function):
        self._operation, argument = FUNCTIONS[name]
        names = list(inspect.signature(function).parameters)

        def finder(wanted):
            place = names.index(wanted)

            def find(args, kwargs):
                return args[place] if len(args) > place else kwargs.get(wanted)

            return find

        self._group = finder("group")
        self._argument = finder(argument) if argument else None
        self._list = finder(LISTS[name]) if name in LISTS else None

    def of(self, args, kwargs):
        """Returns group, operation, and bytes. Raises if the arguments are wrong."""
        operation = self._operation
        if self._list is not None and are_uneven(self._list(args, kwargs)):
            operation = OTHER  # the agent does not compare sizes of OTHER
        size = bytes_of(self._argument(args, kwargs)) if self._argument else 0
        return self._group(args, kwargs), operation, size


def wrapped(name, function, recorder, may_compile):
    call = Call(name, function)

    def begin(args, kwargs):
        try:
            group, operation, size = call.of(args, kwargs)
            c10d = sys.modules["torch.distributed.distributed_c10d"]
            if not c10d.is_initialized() or c10d._rank_not_in_group(group):
                return None  # the function itself raises an error or does nothing
        except Exception:
            return None
        return recorder.enter(group, operation, size)

    @functools.wraps(function)
    def ddprun_recorded(*args, **kwargs):
        if may_compile and torch.compiler.is_compiling():
            return function(*args, **kwargs)  # torch.compile needs torch's own function
        token = begin(args, kwargs)
        work = None
        try:
            work = function(*args, **kwargs)
            return work
        finally:
            if token is not None:
                recorder.leave(token, work)

    ddprun_recorded._ddprun_records = True
    return ddprun_recorded


def record_collectives():
    """Records the collectives of torch.distributed. Then ddprun can name both ranks if two ranks
    enter different collectives: "rank 1 on n1 entered all_reduce 12 (12000 bytes); rank 0 on n1
    and 2 other ranks entered all_reduce 12 (8000 bytes): their calls do not match". Call it once on
    every rank, before or after init_process_group(). --auto-step calls it, too.

    It replaces these functions of the module torch.distributed: all_reduce, broadcast, reduce,
    all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor, all_to_all,
    all_to_all_single, gather, scatter and barrier. The new functions write number, operation and
    bytes to shared memory, and call the original. Names, signatures, results and errors stay the
    same. A call takes about 10 us longer.

    It does not record:
    - names that a program imported before this call: `from torch.distributed import all_reduce`
    - functions of torch.distributed.distributed_c10d, and what torch itself calls there, such as
      the collectives of objects (all_gather_object); send and recv
    - the collectives of DistributedDataParallel in `backward()`, which C++ code makes
    - code compiled by torch.compile, which uses torch's own functions
    - process groups after the eighth, and groups whose name is not a number

    Each rank counts its recorded calls, and ddprun compares these numbers. So every rank must call
    this function at the same place of the program. A second call does nothing. Without ddprun, or
    in a process that does not report, it does nothing. Needs torch 1.13 or newer.
    """
    if not os.environ.get("DDPRUN_CONTROL_SOCKET"):
        return
    import ddprun
    import torch.distributed

    if torch.distributed.is_available():
        record(torch.distributed, lambda: ddprun._agent)


def record(distributed, agent_of):
    """Does the work of record_collectives(). `distributed`: the module torch.distributed.
    `agent_of`: returns this process's connection to its agent."""
    global torch
    torch = sys.modules["torch"]
    may_compile = hasattr(getattr(torch, "compiler", None), "is_compiling")  # newer than 1.13
    recorder = None
    for name in FUNCTIONS:
        function = getattr(distributed, name, None)
        if function is None or hasattr(function, "_ddprun_records"):
            continue
        recorder = recorder or Recorder(agent_of)
        setattr(distributed, name, wrapped(name, function, recorder, may_compile))
