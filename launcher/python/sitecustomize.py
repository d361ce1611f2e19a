# ddprun puts the folder of this file in front of a worker's PYTHONPATH, so Python runs this file
# when it starts. The file restores the user's environment and sys.path, and imports the user's own
# sitecustomize, if there is one. What stays: the folder with the module `ddprun` is the last one on
# sys.path; faulthandler handles signal 61; with --auto-step or --store agent, an import hook.
#
# Every Python worker runs this file first. So besides these hooks it imports only modules that
# Python has already loaded, or that are built in. It also runs under Python 2, but adds no module
# there.
import os
import sys


def _restore(folder):
    # The rest of PYTHONPATH is the user's. If PYTHONPATH is only the folder, the user had not set
    # it. If it is the folder twice, the user's value was empty.
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
    # For an agent that may not trace this process: on signal 61, faulthandler writes the Python
    # frames of all threads to a memfd. The agent finds the memfd by its name
    # (worker/contract/own_stacks.h). O_APPEND, because the agent empties the file after it has read
    # it.
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
# After the pop, this import finds the sitecustomize that Python would have found without this file.
# It also raises the same errors, such as ImportError if there is none.
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
finally:
    _add_module(os.path.dirname(_folder) + "/module")
