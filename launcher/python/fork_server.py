"""The fork server: a Python interpreter that imports modules once, and then forks every worker of
its node from itself. A forked process waits until ddprun needs a worker. Then it runs the program
like `python3 PROGRAM ARGUMENTS...`.

usage: python3 [OPTIONS] fork_server.py MODULE,... PROGRAM ARGUMENTS...
PROGRAM is a script, `-m MODULE` or `-c CODE`. With --preload ddprun writes this file and starts
it. worker/contract/control.h describes the messages between it and the agent.

It forks only if it has a single thread. A fork copies only the forking thread. It also copies the
locks that other threads hold, and nobody would release these locks in the new process.
"""
import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import io
import os
import signal
import socket
import sys
import time
import types

THIS_FILE = __file__  # Python 3.14 removes the name once the program has run
HEAD_START_S = 0.05
IDLE_S = 0.1  # after this time without a GO, a forked process allocates memory ahead
PIECES = 80  # number of pieces of PIECE_BYTES; malloc takes larger pieces by mmap
PIECE_BYTES = 100 * 1024
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def set_up(program, arguments, replaces):
    """Sets sys.argv and sys.path[0] to the values that they have under `python3 PROGRAM ...`.
    Returns the new sys.path[0]. `replaces`: the current sys.path[0]. If sys.path begins with
    something else, it stays: with -I or -P the interpreter adds no folder there."""
    if program in ("-m", "-c"):
        # runpy later replaces the name by the module's file.
        sys.argv = ["-m" if program == "-m" else "-c", *arguments[1:]]
        first = os.getcwd() if program == "-m" else ""
    elif os.path.isfile(program) and not is_archive(program):
        sys.argv = [program, *arguments]
        first = os.path.dirname(os.path.realpath(program))
    else:
        sys.argv = [program, *arguments]
        first = program
    if sys.path and sys.path[0] == replaces:
        sys.path[0] = first
    return first


def is_archive(path):
    import zipfile

    return zipfile.is_zipfile(path)


def set_by_the_interpreter():
    """Returns LC_CTYPE, if Python itself has set it for this process and its children (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:
        given = file.read().split(b"\0")
    if any(entry.startswith(b"LC_CTYPE=") for entry in given) or "LC_CTYPE" not in os.environ:
        return {}
    return {"LC_CTYPE": os.environ["LC_CTYPE"]}


def connect():
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
    return agent


def await_order(agent, key, flags=0):
    """Waits for the agent's next message KEY=. Returns its value, and the descriptors that came
    with it."""
    while True:
        packet, ancillary, _, _ = agent.recvmsg(8192, socket.CMSG_SPACE(3 * 4), flags)
        if not packet:
            os._exit(0)  # the agent is gone
        descriptors = []
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(data) - len(data) % 4
                descriptors += memoryview(data[:whole]).cast("i").tolist()
        for line in packet.split(b"\n"):
            if line.startswith(key + b"="):
                return line[len(key) + 1:], descriptors


def await_forks(agent):
    """Waits for a request of the agent. Returns all requests so far, as pairs of number and
    descriptor."""
    orders = []
    with contextlib.suppress(BlockingIOError):
        while True:
            number, (arguments,) = await_order(agent, b"FORK", socket.MSG_DONTWAIT if orders else 0)
            orders.append((number, arguments))
    return orders


def read_entries(descriptor):
    """Returns the entries of a file. Each ends with a NUL. Closes the descriptor."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read().split(b"\0")[:-1]


def become_worker(number):
    """Waits for GO=1. Then takes the environment, stdout and stderr that come with it."""
    with connect() as agent:
        agent.send(b"FORKED=" + number)
        agent.settimeout(IDLE_S)
        try:
            _, (environment, *streams) = await_order(agent, b"GO")
        except socket.timeout:
            take_memory()
            agent.settimeout(None)
            _, (environment, *streams) = await_order(agent, b"GO")
    entries = [entry.split(b"=", 1) for entry in read_entries(environment)]
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, descriptor in zip(streams, (1, 2)):
        os.dup2(stream, descriptor)
        os.close(stream)
    kept = set_by_the_interpreter()
    os.environb.clear()
    os.environb.update(entries)
    os.environ.update(kept)


def take_memory():
    """Makes malloc hold free memory in advance. Otherwise the worker would have to wait for the
    kernel, 5 us at the first access to each page, which would delay a restart. The last piece stays
    allocated, so that malloc does not trim the heap."""
    library = ctypes.CDLL(None)
    library.malloc.argtypes = [ctypes.c_size_t]
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    pieces = [library.malloc(PIECE_BYTES) for _ in range(PIECES + 1)]
    for piece in filter(None, pieces):
        ctypes.memset(piece, 0, PIECE_BYTES)
    for piece in pieces[:-1]:
        library.free(piece)


def why_unfit():
    """Returns the reason why this process must not be forked. None: it may be."""
    for _ in range(10):
        threads = os.listdir("/proc/self/task")
        if len(threads) == 1:
            break
        time.sleep(0.005)  # a thread that has ended may still be listed for a moment
    else:
        names = []
        for thread in threads:
            with open(f"/proc/self/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
                names.append(file.read().strip())
        return f"they have started {len(threads) - 1} threads ({', '.join(sorted(names)[:8])})"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "they have initialized CUDA"
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            file = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue  # it was the descriptor of the listing itself
        if file.startswith("/dev/nvidia-uvm"):
            return f"they have initialized CUDA ({file} is open)"
    return None


def serve_forks():
    """Forks a process for each message FORK=n. Returns only in the new processes: n, and the program
    with its arguments, which came with the message."""
    guardian = os.getppid()
    agent = connect()
    why = why_unfit()
    if why is not None:
        agent.send(b"FORKSERVER=unfit " + why.encode())
        os._exit(0)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    gc.freeze()  # a collection would write to pages shared with the children
    agent.send(b"FORKSERVER=ready")
    while True:
        orders = await_forks(agent)
        sys.stdout.flush()
        sys.stderr.flush()
        middle = os.fork()
        if middle == 0:
            agent.close()
            middle = os.getpid()
            number, arguments = fork_each(orders)
            be_a_process_of_its_own()
            cpus, *program = [os.fsdecode(entry) for entry in read_entries(arguments)]
            if cpus:
                os.sched_setaffinity(0, map(int, cpus.split(",")))
            fall_to(guardian, middle, prctl)
            return number, program
        for _, arguments in orders:
            os.close(arguments)
        _, status = os.waitpid(middle, 0)
        if status != 0:
            raise RuntimeError("the forked process could not fork")


def fork_each(orders):
    """Runs in the intermediate process. It forks one process for each order, and ends. The function
    returns only in the new processes: there it returns the order of the process."""
    try:
        for order in orders:
            if os.fork() == 0:
                for _, arguments in orders:
                    if arguments != order[1]:
                        os.close(arguments)
                return order
    except OSError:
        os._exit(1)
    os._exit(0)


def fall_to(guardian, middle, prctl):
    """Waits until the intermediate process has ended. Then the guardian is this process's
    parent, and this process ends with it."""
    while os.getppid() == middle:
        time.sleep(0.0002)
    # Not set earlier, because then the end of the intermediate process would kill this process.
    if prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != guardian:
        os._exit(1)


def be_a_process_of_its_own():
    """Renews the things that forked processes share, but separate interpreters do not: process
    group, random seeds, authkey, thread id, and the memfd for stacks."""
    os.setpgid(0, 0)
    for name in ("random", "numpy.random"):
        if name in sys.modules:
            sys.modules[name].seed()
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.current_process().authkey = os.urandom(32)
    threading = sys.modules.get("threading")
    if hasattr(threading, "main_thread") and hasattr(threading.main_thread(), "_set_native_id"):
        threading.main_thread()._set_native_id()
    stacks = getattr(sys, "_ddprun_stacks", None)  # set by sitecustomize.py
    if stacks is not None:
        made = os.memfd_create("ddprun-python-stacks")
        own = os.open(f"/proc/self/fd/{made}", os.O_WRONLY | os.O_APPEND)
        os.dup2(own, stacks, inheritable=False)
        os.close(own)
        os.close(made)


def take_threads_of_openblas():
    """OpenBLAS starts its threads when it is loaded. So the fork server loads it with one thread.
    This function gives it as many threads as it would have started in this worker."""
    wanted = 0  # from the worker's environment; 0: not set
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        digits = os.environ.get(name, "").split(",")[0].strip()
        wanted = wanted or (int(digits) if digits.isdigit() else 0)
    if wanted == 1:
        return
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split(None, 5)[5].strip() for line in file if "openblas" in line.lower()}
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for prefix, suffix in (("", ""), ("", "64_"), ("scipy_", ""), ("scipy_", "64_")):
            try:
                processors = getattr(library, f"{prefix}openblas_get_num_procs{suffix}")()
                set_threads = getattr(library, f"{prefix}openblas_set_num_threads{suffix}")
            except AttributeError:
                continue
            processors = min(processors, len(os.sched_getaffinity(0)))
            set_threads(min(wanted or processors, processors))


def give_rank_0_a_head_start():
    """Waits until rank 0 listens, at most HEAD_START_S. All workers are forked at the same time. If
    a worker connects before rank 0 listens, torch.distributed makes it wait for a whole second."""
    if os.environ.get("RANK", "0") == "0" or "MASTER_ADDR" not in os.environ:
        return
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return  # an agent serves the store
    end = time.monotonic() + HEAD_START_S
    while time.monotonic() < end:
        try:
            address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
            with socket.create_connection(address, HEAD_START_S):
                return
        except (OSError, KeyError, ValueError):
            time.sleep(0.002)


def begin_to_tell():
    """If the module `ddprun` was preloaded, it begins to report here. It has not reported before,
    because the fork server is not a worker."""
    module = sys.modules.get("ddprun")
    if hasattr(module, "_auto_step") and hasattr(module, "_begin"):
        module._agent = module._Agent()  # the forked one is silent
        module._begin()


def new_main():
    """Makes an empty module __main__, as an interpreter does before it runs a program."""
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
    if sys.version_info < (3, 14):  # from then on Python makes them when they are asked for
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def run_script(path):
    if sys.version_info >= (3, 9):  # since 3.9 __file__ is absolute
        path = os.path.join(os.getcwd(), path[2:] if path.startswith("./") else path)
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: "
              f"[Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    main = new_main()
    main.__file__ = path
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def run(program, arguments):
    if program == "-c":
        main = new_main()
        main.__loader__ = importlib.machinery.BuiltinImporter
        exec(compile(arguments[0], "<string>", "exec", dont_inherit=True), main.__dict__)
    elif program == "-m" or not os.path.isfile(program) and os.path.exists(program) or (
            os.path.isfile(program) and is_archive(program)):
        import runpy

        new_main()
        if program == "-m":
            runpy._run_module_as_main(arguments[0])
        else:
            runpy._run_module_as_main("__main__", False)
    else:
        run_script(program)


def without_this_file(trace):
    while trace is not None and trace.tb_frame.f_code.co_filename == THIS_FILE:
        trace = trace.tb_next
    return trace


def hide_this_file():
    """Hides the frames of this file from code that prints uncaught exceptions."""
    hook = sys.excepthook  # the program may have set its own

    def show(kind, error, trace):
        trace = without_this_file(trace)
        error.__traceback__ = trace
        hook(kind, error, trace)

    sys.excepthook = show


def main():
    modules, program, *arguments = sys.argv[1:]
    interpreter = getattr(sys, "orig_argv", [])[:-len(sys.argv)]
    first = set_up(program, arguments, replaces=os.path.dirname(os.path.abspath(THIS_FILE)))
    gc.disable()  # imports leave little garbage, and collections take a tenth of their time
    for module in modules.split(","):
        importlib.import_module(module)
    gc.enable()
    number, (program, *arguments) = serve_forks()
    set_up(program, arguments, replaces=first)
    if interpreter:
        sys.orig_argv = [*interpreter, program, *arguments]
    become_worker(number)
    take_threads_of_openblas()
    begin_to_tell()
    give_rank_0_a_head_start()
    try:
        run(program, arguments)
    except SystemExit:
        raise
    except BaseException:
        hide_this_file()
        raise


main()
