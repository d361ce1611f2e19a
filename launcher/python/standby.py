"""A Python interpreter that waits, with modules imported, until ddprun needs a worker; then it is
one: it runs the program as `python3 PROGRAM ARGUMENTS...` would.

usage: python3 [OPTIONS] standby.py MODULE,... PROGRAM ARGUMENTS...
PROGRAM is a script, `-m MODULE` or `-c CODE`. ddprun writes this file and starts it with --preload;
worker/contract/control.h tells what it and the agent say to each other.
"""
import importlib
import importlib.machinery
import io
import os
import socket
import sys
import time
import types

HEAD_START_S = 0.05


def set_up(program, arguments):
    """Gives sys.argv and sys.path[0] what they have under `python3 PROGRAM ...`."""
    own_folder = os.path.dirname(os.path.realpath(__file__))
    if program in ("-m", "-c"):
        # runpy puts the module's file in the place of the name.
        sys.argv = ["-m" if program == "-m" else "-c", *arguments[1:]]
        first = os.getcwd() if program == "-m" else ""
    elif os.path.isfile(program) and not is_archive(program):
        sys.argv = [program, *arguments]
        first = os.path.dirname(os.path.realpath(program))
    else:
        sys.argv = [program, *arguments]
        first = program
    # With -I or -P the interpreter has put nothing there.
    if sys.path and os.path.realpath(sys.path[0]) == own_folder:
        sys.path[0] = first


def is_archive(path):
    import zipfile

    return zipfile.is_zipfile(path)


def set_by_the_interpreter():
    """LC_CTYPE, where Python has set it for itself and its children (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:
        given = file.read().split(b"\0")
    if any(entry.startswith(b"LC_CTYPE=") for entry in given) or "LC_CTYPE" not in os.environ:
        return {}
    return {"LC_CTYPE": os.environ["LC_CTYPE"]}


def become_worker():
    """Waits for GO=1, then takes the environment, stdout and stderr that come with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
        agent.send(b"STANDBY=waiting")
        while True:
            packet, ancillary, _, _ = agent.recvmsg(8192, socket.CMSG_SPACE(3 * 4))
            if not packet:
                os._exit(0)  # the agent is gone
            if b"GO=1" in packet.split(b"\n"):
                break
    descriptors = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(data) - len(data) % 4
            descriptors += memoryview(data[:whole]).cast("i").tolist()
    environment, *streams = descriptors
    with os.fdopen(environment, "rb") as file:
        entries = [entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry]
    sys.stdout.flush()
    sys.stderr.flush()
    for stream, descriptor in zip(streams, (1, 2)):
        os.dup2(stream, descriptor)
        os.close(stream)
    kept = set_by_the_interpreter()
    os.environb.clear()
    os.environb.update(entries)
    os.environ.update(kept)


def give_rank_0_a_head_start():
    """Waits until rank 0 listens, if it does soon. Standbys start all at once, and a rank that calls
    before rank 0 listens is made to wait for a whole second by torch.distributed."""
    if os.environ.get("RANK", "0") == "0" or "MASTER_ADDR" not in os.environ:
        return
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return  # an agent listens
    end = time.monotonic() + HEAD_START_S
    while time.monotonic() < end:
        try:
            address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
            with socket.create_connection(address, HEAD_START_S):
                return
        except (OSError, KeyError, ValueError):
            time.sleep(0.002)


def begin_to_tell():
    """A preloaded module `ddprun` has told nothing yet, because it was imported in a standby."""
    module = sys.modules.get("ddprun")
    if hasattr(module, "_auto_step") and hasattr(module, "_begin"):
        module._begin()


def new_main():
    """An empty __main__, as the interpreter has it before it runs a program."""
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]
    main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def run_script(path):
    if sys.version_info >= (3, 9):  # since then __file__ is absolute
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
    """Lets what prints an uncaught exception see no frame of this file."""
    hook = sys.excepthook  # the program may have set its own

    def show(kind, error, trace):
        trace = without_this_file(trace)
        error.__traceback__ = trace
        hook(kind, error, trace)

    sys.excepthook = show


def main():
    modules, program, *arguments = sys.argv[1:]
    set_up(program, arguments)
    for module in modules.split(","):
        importlib.import_module(module)
    become_worker()
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
