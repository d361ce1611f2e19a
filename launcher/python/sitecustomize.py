# ddprun puts the folder of this file in front of a worker's PYTHONPATH. Python runs it at its start,
# and then it is as if it had never been: the environment and sys.path are the user's again, and the
# user's own sitecustomize, if there is one, is imported in its place. What stays is the folder with
# the module `ddprun`, as the last one of sys.path, and a handler of faulthandler.
#
# It is the first thing that every worker runs: nothing is imported here that Python has not loaded
# by now, or built in. Python 2 gets as far as everybody else, but for the module.
import os
import sys


def _restore(folder):
    # The user's PYTHONPATH is what follows; it was not set where nothing does, and it was empty
    # where the folder stands there twice.
    value = os.environ.get("PYTHONPATH", "")
    if value == folder:
        del os.environ["PYTHONPATH"]
    elif value == folder + ":" + folder:
        os.environ["PYTHONPATH"] = ""
    elif value.startswith(folder + ":"):
        os.environ["PYTHONPATH"] = value[len(folder) + 1:]
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)


def _write_stacks_on_signal():
    # For an agent that may not trace this process: on signal 61 faulthandler writes the Python frames
    # of all threads to a memfd, which the agent finds by its name (worker/contract/own_stacks.h).
    # O_APPEND: the agent empties the file when it has read it.
    try:
        import _signal
        import faulthandler

        if _signal.getsignal(61) != _signal.SIG_DFL:
            return
        made = os.memfd_create("ddprun-python-stacks")
        try:
            file = os.open("/proc/self/fd/%d" % made, os.O_WRONLY | os.O_APPEND)
        finally:
            os.close(made)
        faulthandler.register(61, file=file, all_threads=True, chain=False)
        sys._ddprun_stacks = file
    except Exception:
        pass


def _add_module(folder):
    if sys.version_info < (3, 8):
        return
    _write_stacks_on_signal()
    sys.path.append(folder)
    if os.path.exists(folder + "/_ddprun_auto_step.py"):
        import _ddprun_auto_step  # noqa: F401
    if os.path.exists(folder + "/_ddprun_store.py"):
        import _ddprun_store  # noqa: F401


_folder = os.path.dirname(os.path.abspath(__file__))
_restore(_folder)
# With its name free, this import finds what Python would have found without this file, and what it
# raises is what Python would have seen, ImportError of this name too: there is none.
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
finally:
    _add_module(os.path.dirname(_folder) + "/module")
