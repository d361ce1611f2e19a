"""The fork server: a Python interpreter that imports modules once, and forks every worker of its
node from itself. A forked process waits until ddprun needs a worker. Then it runs the program as
`python3 PROGRAM ARGUMENTS...` would.

usage: python3 [OPTIONS] fork_server.py MODULE,... PROGRAM ARGUMENTS...
PROGRAM is a script, `-m MODULE` or `-c CODE`. ddprun writes this file and starts it with
--preload; worker/contract/control.h describes its messages with the agent.

It forks only while its first thread is its only one: a forked process copies the forking thread,
and the locks that other threads hold.
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

HEAD_START_S = 0.05
IDLE_S = 0.1  # after this time without a GO, a standby allocates memory ahead
PIECES = 80  # number of pieces, and bytes of each; C libraries allocate larger ones by mmap
PIECE_BYTES = 100 * 1024
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def set_up(program, arguments, replaces):
    """Sets sys.argv and sys.path[0] to their values under `python3 PROGRAM ...`. Returns the
    latter. `replaces`: the present sys.path[0]; with -I or -P the interpreter has added none."""
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
    """LC_CTYPE, if Python has set it for itself and its children (PEP 538)."""
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
    """The value of the agent's next message KEY=, and the descriptors that came with it."""
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
    """Pairs of number and descriptor: all requests of the agent so far, at least one."""
    orders = []
    with contextlib.suppress(BlockingIOError):
        while True:
            number, (arguments,) = await_order(agent, b"FORK", socket.MSG_DONTWAIT if orders else 0)
            orders.append((number, arguments))
    return orders


def read_entries(descriptor):
    """The content of a file of entries that each end with a NUL."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read().split(b"\0")[:-1]


def become_worker(number):
    """Waits for GO=1, then takes the environment, stdout and stderr that come with it."""
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
    """Makes the C library hold free memory in advance: the kernel takes 5 us for each page that
    a program touches first, which would delay a restart. The last piece stays allocated, so that
    the heap is not trimmed."""
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
    """Why this process must not be forked; None: it can be."""
    for _ in range(10):
        threads = os.listdir("/proc/self/task")
        if len(threads) == 1:
            break
        time.sleep(0.005)  # an ended thread may be listed for a moment
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
            continue  # the descriptor of this listing
        if file.startswith("/dev/nvidia-uvm"):
            return f"they have initialized CUDA ({file} is open)"
    return None


def serve_forks():
    """Forks a process for each FORK=n. Returns only in the new processes: n, and the program and
    its arguments, which came with it."""
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
    """Runs in the intermediate process: forks one process per order, and ends. Returns only in
    the new processes, each with its order."""
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
    # Set only now: earlier, the end of the process in the middle would have killed this one.
    if prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != guardian:
        os._exit(1)


def be_a_process_of_its_own():
    """Resets what a fork copies into all children, and a new interpreter would not share."""
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
    """OpenBLAS starts its threads when it is loaded, so the fork server loads it with one. Here
    it gets as many threads as it would have started in this worker."""
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
    """Waits until rank 0 listens, if that happens soon. All workers are forked at once, and
    torch.distributed makes a worker that connects before rank 0 listens wait for a whole second."""
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
    """A preloaded module `ddprun` has reported nothing yet: the fork server, which imported it,
    is not a worker."""
    module = sys.modules.get("ddprun")
    if hasattr(module, "_auto_step") and hasattr(module, "_begin"):
        module._agent = module._Agent()  # the forked one is silent
        module._begin()


def new_main():
    """An empty __main__, as in an interpreter before it runs a program."""
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
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
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
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
    first = set_up(program, arguments, replaces=os.path.dirname(os.path.abspath(__file__)))
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
