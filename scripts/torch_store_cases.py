"""Runs PyTorch's test_store.py with the store of rank 0's agent as master store, for scripts/torch_store_tests.sh.

A TCPStore with is_master=True starts tests/programs/store_server on its port, and becomes a client of it. The list
DIFFERENCES below names the cases that are expected to fail, with reasons.
"""
import ast
import faulthandler
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import traceback
import types
import unittest

CASE_LIMIT = 120  # seconds; a case that hangs ends the run, with its stacks

# A class of the file is run if its text, or the text of its base classes in the file, matches this pattern.
NAMES_THE_STORE = re.compile(r"TCPStore|tcp_store|tcp://|env://")

# Cases that are expected to fail, as CLASS.METHOD. An entry also applies to subclasses of this class.
DIFFERENCES = {
    "TCPStoreTest.test_repr":
        "the case wants the server inside the master's process; our server is another process",
    "TCPStoreTest.test_store_timeout_on_missing_clients":
        "torch's master, not its server, waits for the other clients; here the master is a client itself",
    "TCPStoreTest.test_take_over_listen_socket":
        "the case gives a socket to the server; our agent makes the socket of its store itself",
}


class Servers:
    """Our servers, by port. They live until the run ends."""

    def __init__(self, program):
        self.program = program
        self.running = {}
        self.clients = []  # keeps the Python objects of our clients alive, so that torch returns them

    def start(self, port):
        """The port of a new server, or None if it cannot have this port. 0: any port."""
        server = subprocess.Popen([self.program, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = server.stdout.readline()
        if not line:
            server.stdin.close()
            server.wait()
            return None
        self.running[int(line)] = server
        return int(line)

    def stop_all(self):
        """True: each server ended with 0."""
        for server in self.running.values():
            server.stdin.close()
        codes = [server.wait() for server in self.running.values()]
        self.running.clear()
        return not any(codes)


def put_in_place(servers):
    """Replaces TCPStore in every module of torch by a class whose masters are our servers."""
    import torch.distributed as dist
    import torch.distributed.distributed_c10d  # noqa: F401, it holds TCPStore too
    import torch.distributed.rendezvous  # noqa: F401

    own = dist.TCPStore
    knows_libuv = hasattr(own, "libuvBackend")
    names = ("host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant",
             "master_listen_fd", "use_libuv")

    class TCPStore(own):
        """torch's client, even if the case asks for a master."""

        def __init__(self, *arguments, **named):
            options = {**dict(zip(names, arguments)), **named}
            self.asked_for_libuv = options.get("use_libuv", True)
            if knows_libuv:
                options["use_libuv"] = False  # Debian's torch has no libuv, and refuses it also to clients
            servers.clients.append(self)
            if options.get("is_master"):
                self.become_client(options)
            else:
                super().__init__(**options)

        def become_client(self, options):
            if options.get("master_listen_fd") is not None:
                raise NotImplementedError("the store of ddprun's agent takes no socket of its user")
            port = options["port"]
            if not (options.get("multi_tenant") and port in servers.running):
                found = servers.start(port)
                if found is None:
                    # Raises torch's own error, because torch's server cannot have this port either. Exception: with
                    # TORCHELASTIC_USE_AGENT_STORE, torch 2.x makes a client of the server that has the port.
                    super().__init__(**options)
                    if port not in servers.running or not os.environ.get("TORCHELASTIC_USE_AGENT_STORE"):
                        raise AssertionError(f"torch's server took port {port}, and ours could not")
                    return
                port = found
            super().__init__(**{**options, "port": port, "is_master": False})

        if knows_libuv:
            # Returns what the case asked for: our server uses neither of torch's two servers.
            libuvBackend = property(lambda self: self.asked_for_libuv)

    for name, module in list(sys.modules.items()):
        if name.startswith("torch") and isinstance(module, types.ModuleType) and vars(module).get("TCPStore") is own:
            module.TCPStore = TCPStore


class Missing(unittest.TestCase):
    """Stands for a class of torch.testing._internal that the installed torch lacks: skips its cases."""

    def setUp(self):
        self.skipTest("the installed torch lacks a class of torch.testing._internal that this case needs")


def add_missing_parts(text):
    """Adds to the installed torch the parts of torch.testing._internal that the file imports and Debian's torch lacks."""
    if not importlib.util.find_spec("expecttest"):
        # common_utils imports it; no case of the store uses it.
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.testing._internal"):
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    setattr(module, name.name, Missing)


def load(path):
    """The file as a module."""
    spec = importlib.util.spec_from_file_location("test_store", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_store"] = module
    spec.loader.exec_module(module)
    return module


def classes_of(module):
    """The classes of cases that use a TCPStore, in the order of their names."""
    for name, found in sorted(vars(module).items()):
        if not (isinstance(found, type) and issubclass(found, unittest.TestCase)) or found.__module__ != "test_store":
            continue
        family = [base for base in found.__mro__ if base.__module__ == "test_store"]
        if any(NAMES_THE_STORE.search(inspect.getsource(base)) for base in family):
            yield name, found


def reason_to_differ(case):
    """The reason of DIFFERENCES for a case, or None."""
    names = (f"{base.__name__}.{case._testMethodName}" for base in type(case).__mro__)
    return next((DIFFERENCES[name] for name in names if name in DIFFERENCES), None)


def run(case):
    """Runs one case. Returns its verdict and the reason."""
    result = unittest.TestResult()
    faulthandler.dump_traceback_later(CASE_LIMIT, exit=True)
    unittest.TestSuite([case]).run(result)  # a suite, because it calls setUpClass
    faulthandler.cancel_dump_traceback_later()
    failures = [text for _, text in result.failures + result.errors]
    if failures or result.unexpectedSuccesses:
        return "FAIL", "\n".join(failures)
    if result.skipped:
        return "SKIP", result.skipped[0][1]
    return "PASS", ""


def main(arguments):
    """Runs the cases of the file that the last argument names; returns the exit code."""
    path, torch_server = arguments[-1], "--torch-server" in arguments
    sys.argv = sys.argv[:1]  # torch's common_utils parses sys.argv
    import torch
    with open(path, encoding="utf-8") as file:
        add_missing_parts(file.read())
    servers = Servers(os.environ["STORE_SERVER"])
    if not torch_server:
        put_in_place(servers)
    print(f"torch {torch.__version__}, {'its own server' if torch_server else 'our server'}, {path}", flush=True)
    module = load(path)

    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0, "DIFFERS": 0}
    for name, cases in classes_of(module):
        for method in unittest.TestLoader().getTestCaseNames(cases):
            case = cases(method)
            verdict, why = run(case)
            expected = None if torch_server else reason_to_differ(case)
            if verdict == "FAIL":
                print(why)
                verdict, why = ("DIFFERS", expected) if expected else ("FAIL", "see above")
            elif verdict == "PASS" and expected:
                why = "although DIFFERENCES names it"
            counts[verdict] += 1
            print(f"{verdict} {name}.{method}{': ' + why if why else ''}", flush=True)

    served = len(servers.running)
    ended_well = servers.stop_all()
    if not ended_well:
        print("one of our servers did not end with 0")
    if not torch_server:
        print(f"{served} stores served by our server")
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped, "
          f"{counts['DIFFERS']} differ as expected")
    ran = counts["PASS"] > 0 and (torch_server or served > 0)
    if not ran:
        print("no case passed with our server" if not torch_server else "no case passed")
    return 0 if ran and ended_well and not counts["FAIL"] else 1


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at a normal exit, process groups of the cases would still look for their store
