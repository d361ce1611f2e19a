"""Reports the progress of a training to ddprun: finished steps, and phases such as evaluation.

    import ddprun

    for step, batch in enumerate(loader):
        train(batch)
        ddprun.step(step)
        if step % 1000 == 0:
            with ddprun.phase("eval"):
                evaluate()

`ddprun status` shows the reports, and ddprun uses them to detect a hang. The import tells ddprun
that steps will come, so ddprun also detects a hang before the first step. Without ddprun these
calls do nothing, so a script may always make them.

No call waits for ddprun, and ddprun never makes a call raise: if ddprun is gone, calls do nothing.
Wrong arguments raise TypeError or ValueError, with and without ddprun. Any thread may call. Only
the worker process itself reports. Forked processes, children of `multiprocessing` (such as the
workers of a DataLoader) and programs that the worker starts are silent.

`ddprun.Checkpointer` saves and restores the states of a training. `ddprun.DistributedSampler`
can continue in the middle of an epoch. `ddprun.record_collectives()` lets ddprun name both ranks
if two ranks enter different collectives. These three need torch, and the package `_ddprun_state`
beside this file. Their first use imports both.

Everything else requires only Python 3.8 or newer and the standard library.
"""
import atexit
import contextlib
import errno
import operator
import os
import sys
import threading
import time

__all__ = ["enabled", "phase", "step"]  # without the names of _IN_PACKAGE, which would import torch
__version__ = "0"  # ddprun's, in a file that ddprun wrote

# The phase outside of all phases that the program names.
_TRAIN = "train"
# Phases of the C++ library: ddprun measures restarts by them (worker/contract/control.h).
_TAKEN = ("init", "restore", "first_step")
_MAX_PHASE_BYTES = 64
_MAX_STEP = 2**63 - 1

# Rate limit: _BURST messages in a row, then _PER_SECOND. Beyond it only the newest message is sent,
# a moment later.
_BURST = 100
_PER_SECOND = 1000
_RETRY_S = 0.005
_LONGEST_RETRY_S = 1.0

# This variable names the process that reports to the agent: "PID SOCKET", where SOCKET is
# DDPRUN_CONTROL_SOCKET. That process sets it, so that programs that it starts stay silent.
_SPEAKER = "DDPRUN_SPEAKER"

# Names of this module that the package _ddprun_state implements, with their modules.
_IN_PACKAGE = {
    "Checkpointer": "checkpointer", "State": "state", "SaveStatus": "writer",
    "DistributedSampler": "sampler", "SamplerState": "sampler", "CheckpointError": "errors",
    "AgreedError": "errors", "FolderTakenError": "errors", "StateUnreadableError": "errors",
    "record_collectives": "collectives"}

# At most this number of packets wait for a slow agent. The oldest ones are dropped.
_MAX_PACKETS = 100
_MAX_PACKET_BYTES = 8192  # worker/contract/control.h

_PAGE_COMES = b"PROGRESS=2"  # kProgressVersion of worker/contract/progress_page.h

_STACK_SIGNAL = 61  # worker/contract/own_stacks.h


class _Agent:
    """The connection to this node's agent. No method except take_page() waits. None raises. Any
    thread may call."""

    def __init__(self, silent=False):
        # Reentrant: a signal handler may call while its thread holds it.
        self.lock = threading.RLock()
        self.silent = silent  # permanently
        self.path = None  # set by the first call of speaks()
        self.socket = None
        # Not sent yet:
        self.tells = False  # True: TELLS=1
        self.step = None
        self.phase = None
        self.packets = []  # sent unchanged, before the three above
        self.save_requests = 0  # SAVE requests of the agent so far
        self.page = None  # descriptor of the progress page, until somebody takes it
        self.tokens = float(_BURST)
        self.filled_at = time.monotonic()
        self.late = threading.Event()  # the thread has messages to send
        self.thread = None

    def speaks(self):
        """Whether this process may report, as far as it knows."""
        if self.silent:
            return False
        if self.path is None:
            with self.lock:
                self.path = _path_for_this_process()
                self.silent = self.path is None
                if not self.silent:
                    _write_stacks_on_signal()
        return not self.silent

    def tell(self, step=None, phase=None, tells=False):
        """Sends the given values, now or some milliseconds later."""
        if not self.speaks():
            return
        with self.lock:
            self.tells = self.tells or tells
            if step is not None:
                self.step = step
            if phase is not None:
                self.phase = phase
            now = time.monotonic()
            self.tokens = min(_BURST, self.tokens + (now - self.filled_at) * _PER_SECOND)
            self.filled_at = now
            if self.tokens >= 1 and self.send():
                self.tokens -= 1
            elif not self.silent:
                self.send_later()

    def say(self, packet):
        """Sends a packet regardless of the rate limit."""
        if not self.speaks():
            return
        with self.lock:
            self.packets = self.packets[1 - _MAX_PACKETS:] + [packet[:_MAX_PACKET_BYTES]]
            if not self.send() and not self.silent:
                self.send_later()

    def hear(self):
        """Receives the agent's messages."""
        with self.lock:
            while self.socket is not None:
                try:
                    packet, ancillary, _, _ = self.socket.recvmsg(
                        _MAX_PACKET_BYTES, 64, _RECEIVE_FLAGS)
                except OSError:
                    return  # no more input
                if not packet:
                    return  # the agent is gone
                lines = packet.split(b"\n")
                self.save_requests += lines.count(b"SAVE=1")
                for descriptor in _descriptors(ancillary):
                    if _PAGE_COMES in lines and self.page is None:
                        self.page = descriptor
                    else:
                        os.close(descriptor)

    def ask_for_page(self):
        self.say(b"PROGRESS=1")

    def take_page(self, patience):
        """Returns the descriptor of the progress page. The caller closes it. Returns None if it did
        not come within `patience` seconds."""
        until = time.monotonic() + patience
        while True:
            self.hear()
            with self.lock:
                page, self.page = self.page, None
            left = until - time.monotonic()
            if page is not None or left <= 0 or self.socket is None:
                return page
            _await_input(self.socket, left)

    def send(self):
        """Sends all pending messages. Returns False if that is not possible now."""
        lines = []
        if self.tells:
            lines.append(b"TELLS=1")
        if self.step is not None:
            lines.append(b"STEP=%d" % self.step)
        if self.phase is not None:
            lines.append(b"PHASE=" + self.phase)
        if not lines and not self.packets:
            return True
        try:
            if self.socket is None:
                self.socket = _connect(self.path)
            while self.packets:
                self.socket.send(self.packets[0], _FLAGS)
                del self.packets[0]
            if lines:
                self.socket.send(b"\n".join(lines), _FLAGS)
        except (BlockingIOError, InterruptedError):
            return False  # the agent is slow
        except Exception as error:
            if getattr(error, "errno", None) in (errno.ENOBUFS, errno.ENOMEM):
                return False
            self.silent = True  # the agent is gone, or descriptors have run out
            self.close()
            return False
        self.tells = False
        self.step = self.phase = None
        return True

    def send_later(self):
        if self.late.is_set():
            return
        self.late.set()
        if self.thread is not None:
            return
        try:
            thread = threading.Thread(target=self.run, name="ddprun", daemon=True)
            thread.start()
            self.thread = thread
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            self.late.clear()

    def run(self):
        pause = _RETRY_S
        while True:
            self.late.wait()
            time.sleep(pause)
            with self.lock:
                if self.silent:
                    return
                if self.send():
                    self.late.clear()
                    pause = _RETRY_S
                else:
                    pause = min(2 * pause, _LONGEST_RETRY_S)

    def send_at_exit(self):
        if self.path is not None and not self.silent:
            with self.lock:
                self.send()

    def close(self):
        if self.socket is not None:
            try:
                self.socket.close()
            except OSError:
                pass
            self.socket = None


_FLAGS = _RECEIVE_FLAGS = 0  # flags of each call; set by the first connection


def _connect(path):
    global _FLAGS, _RECEIVE_FLAGS
    import socket

    _FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    _RECEIVE_FLAGS = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        agent.setblocking(False)
        agent.connect(path)
    except BaseException:
        agent.close()
        raise
    return agent


def _descriptors(ancillary):
    """Returns the descriptors that came with a packet."""
    import socket

    found = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found += memoryview(data[:len(data) // 4 * 4]).cast("i").tolist()
    return found


def _await_input(connection, seconds):
    import select

    poll = select.poll()  # select() refuses descriptors above 1,023
    try:
        poll.register(connection, select.POLLIN)
        poll.poll(max(1, 1000 * seconds))
    except (OSError, TypeError, ValueError):
        pass  # another thread has closed it


def _path_for_this_process():
    """Returns the path of the agent's socket if this process is the one that reports; else None."""
    path = os.environ.get("DDPRUN_CONTROL_SOCKET")
    if not path:
        return None
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return None
    me = "%d %s" % (os.getpid(), path)
    speaker = os.environ.get(_SPEAKER, "")
    if speaker != me and speaker.endswith(" " + path):
        return None  # a child of the process that speaks
    os.environ[_SPEAKER] = me
    return path


def _write_stacks_on_signal():
    """For an agent that may not trace this process: on signal 61, faulthandler writes the Python
    frames of all threads to a memfd. The agent finds the memfd by its name. Does nothing if the
    program handles the signal. If the agent has started this interpreter, sitecustomize.py has
    set this up already."""
    if hasattr(sys, "_ddprun_stacks"):
        return
    try:
        import faulthandler
        import signal

        if signal.getsignal(_STACK_SIGNAL) != signal.SIG_DFL:
            return
        made = os.memfd_create("ddprun-python-stacks")
        try:
            file = os.open("/proc/self/fd/%d" % made, os.O_WRONLY | os.O_APPEND)
        finally:
            os.close(made)
        faulthandler.register(_STACK_SIGNAL, file=file, all_threads=True, chain=False)
        sys._ddprun_stacks = file
    except Exception:
        pass


_agent = _Agent()
_phases = []  # (token, name) of each open phase, of all threads
_told = None  # the last reported phase
_steps_are_told = False  # the program calls step()


def _silence():
    """Runs in each forked process. It stays silent, because its parent reports."""
    global _agent
    inherited = _agent
    _agent = _Agent(silent=True)
    inherited.close()  # this process's copy of the socket


os.register_at_fork(after_in_child=_silence)
atexit.register(lambda: _agent.send_at_exit())


def enabled():
    """Returns True if reports of this process reach an agent of ddprun, as far as the process
    knows: it runs under ddprun, it is the process that reports, and the agent is not gone."""
    return _agent.speaks()


def step(n):
    """Reports that step `n` of the training is finished.

    `n`: an integer from 0 on, or a value that converts to an integer without loss, such as a
    NumPy integer. A training that continues from a checkpoint continues to count from that step.
    Call this function once for each step. A call takes some microseconds. If there are more than
    1,000 calls per second, not all steps are sent. The last step is always sent, within some
    milliseconds.

    Raises TypeError if `n` is not an integer, ValueError if it is negative or above 2**63 - 1.
    """
    global _steps_are_told
    n = operator.index(n)
    if not 0 <= n <= _MAX_STEP:
        raise ValueError("ddprun.step: expected a number from 0 to 2**63 - 1 (found %d)" % n)
    _steps_are_told = True
    _tell_step(n)


class phase(contextlib.ContextDecorator):
    """Reports what the training does while the body of a `with`, or a decorated function, runs.
    Afterwards the previous phase is reported again; outside all phases it is `train`.

        with ddprun.phase("eval"):
            evaluate()

        @ddprun.phase("save")
        def save(): ...

    Give a name to everything that takes longer than a step: evaluation, saving, loading of data.
    ddprun learns for each name how long a training may go without a step. A job should use few
    different names.

    `name`: 1 to 64 bytes of printable text. Raises ValueError for any other text, and for init,
    restore and first_step, which ddprun's C++ library uses. Raises TypeError if it is not a str.
    """

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError("ddprun.phase: expected a str (found %s)" % type(name).__name__)
        if not name or not name.isprintable() or len(name.encode()) > _MAX_PHASE_BYTES:
            raise ValueError("ddprun.phase: expected 1 to %d bytes of printable text (found %.80r)"
                             % (_MAX_PHASE_BYTES, name))
        if name in _TAKEN:
            raise ValueError("ddprun.phase: %r is a phase of ddprun's C++ library; choose another "
                             "name, such as %r" % (name, "my_" + name))
        self.name = name
        self._entered = []

    def __enter__(self):
        entry = (object(), self.name)
        self._entered.append(entry)
        _phases.append(entry)
        _tell_phase()
        return self

    def __exit__(self, *error):
        _phases.remove(self._entered.pop())
        _tell_phase()
        return False


def _tell_phase():
    global _told
    with _agent.lock:
        name = _phases[-1][1] if _phases else _TRAIN
        if name != _told:
            _told = name
            _agent.tell(phase=name.encode())


def _tell_step(n):
    global _told
    if _told is None:  # the first step shows that this is training
        _told = _TRAIN
        _agent.tell(n, _TRAIN.encode())
    else:
        _agent.tell(n)


def _say(key, value):
    """Sends one line `key=value`. For a Checkpointer."""
    _agent.say(("%s=%s" % (key, value)).replace("\n", " ").encode())


def _save_requests():
    _agent.hear()
    return _agent.save_requests


def _tell_library_phase(name):
    """Reports a phase of _TAKEN. It lasts until the next phase or step."""
    global _told
    with _agent.lock:
        _told = name
        _agent.tell(phase=name.encode())


def __getattr__(name):
    if name not in _IN_PACKAGE:
        raise AttributeError("module 'ddprun' has no attribute %r" % name)
    import importlib

    try:
        module = importlib.import_module("_ddprun_state." + _IN_PACKAGE[name])
    except ModuleNotFoundError as error:
        if error.name != "_ddprun_state":
            raise
        raise ImportError("ddprun.%s needs the folder _ddprun_state beside ddprun.py: `ddprun "
                          "python-module DIR` writes both" % name) from None
    value = globals()[name] = getattr(module, name)
    return value


def _auto_step(n):
    """Reports step `n` for --auto-step. Returns False if the program reports its steps itself."""
    if _steps_are_told:
        return False
    _tell_step(n)
    return True


def _begin():
    """Tells the agent that steps will come. A warm standby (DDPRUN_STANDBY=1) is not a worker yet:
    there fork_server.py calls this function again later."""
    if os.environ.get("DDPRUN_STANDBY") != "1":
        _agent.tell(tells=True)


_begin()
