# For --auto-step: reports a step to ddprun after each `optimizer.step()` of an unmodified PyTorch
# script. Also records the script's collectives (ddprun.record_collectives()). docs/python.md
# explains what counts as a step.
#
# It does not import torch: it waits until the script has imported torch.optim and
# torch.distributed. After an error of its own it writes one line to stderr and does nothing more;
# the script continues.
import sys

from _ddprun_after_import import after_import

_MODULE = "torch.optim.optimizer"
_MARK = "_ddprun_counts"  # marks a wrapped `step`

_off = False
_tallies = None  # for each optimizer: the number of its last step, in the count of the training
_last = None  # weak reference to the optimizer of the last step
_count = 0  # steps of the training
_tell = None


def _give_up(error):
    global _off
    if _off:
        return
    _off = True
    try:
        sys.stderr.write("ddprun: --auto-step is off: %s: %s\n" % (type(error).__name__, error))
        _tell_that_no_steps_come()
    except Exception:
        pass


def _tell_that_no_steps_come():
    """Without this message ddprun would report a hang, because it expects steps from the start of
    the process on."""
    import os
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.setblocking(False)
        agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
        agent.send(b"TELLS=0")


def _hook(module):
    try:
        register = getattr(module, "register_optimizer_step_post_hook", None)
        if register is not None:  # torch 2
            register(_after_step)
        elif hasattr(getattr(module, "Optimizer", None), "_hook_for_profile"):
            _wrap_steps_of(module.Optimizer)
        else:
            raise RuntimeError("this version of PyTorch has no hook for steps")
    except Exception as error:
        _give_up(error)


def _after_step(optimizer, args, kwargs):
    if not _off:
        _stepped(optimizer)


_after_step._torchdynamo_disable = True  # torch.compile must not trace it


def _wrap_steps_of(optimizer_class):
    """For torch 1.13, which calls `_hook_for_profile` when an optimizer is made. Replaces that
    method by one that also wraps the `step` of the optimizer's class, once."""
    prepare = optimizer_class._hook_for_profile

    def _hook_for_profile(self):
        prepare(self)
        if _off:
            return
        try:
            step = type(self).step
            if _MARK not in vars(step):
                type(self).step = _wrapped(step)
        except Exception as error:
            _give_up(error)

    optimizer_class._hook_for_profile = _hook_for_profile


def _wrapped(step):
    import functools

    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        result = step(self, *args, **kwargs)
        _after_step(self, args, kwargs)
        return result

    setattr(wrapper, _MARK, True)
    return wrapper


def _stepped(optimizer):
    """Reports the steps of the optimizer with the most steps. An optimizer that begins later, or
    has paused, continues the step number of the training once it makes two steps in a row."""
    global _off, _tallies, _last, _count, _tell
    try:
        import weakref

        if _tell is None:
            _tallies = weakref.WeakKeyDictionary()
            _last = lambda: None
            _tell = _teller()
        tally = _tallies.get(optimizer, max(_count - 1, 0)) + 1
        if _last() is optimizer:
            tally = max(tally, _count + 1)
        else:
            _last = weakref.ref(optimizer)
        _tallies[optimizer] = tally
        if tally > _count:
            _count = tally
            if not _tell(tally):
                _off = True  # the program reports its steps itself
    except Exception as error:
        _give_up(error)


_own = None  # a separate copy of ddprun's module, if the program has another one of that name


def _ours():
    """Returns the module `ddprun` that the program uses, if that is ddprun's. Otherwise returns a
    separate copy."""
    global _own
    import importlib.util
    import os

    used = sys.modules.get("ddprun")
    if hasattr(used, "_auto_step"):
        return used
    if _own is not None:
        return _own
    ours = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddprun.py")
    found = importlib.util.find_spec("ddprun") if used is None else None
    if found is not None and found.origin == ours:
        import ddprun

        return ddprun
    spec = importlib.util.spec_from_file_location("_ddprun", ours)
    _own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(_own)
    return _own


def _teller():
    module = _ours()
    if module is not _own:
        return module._auto_step

    def tell(n):
        return not getattr(sys.modules.get("ddprun"), "_steps_are_told", False) and (
            module._auto_step(n))

    return tell


def _record(distributed):
    try:
        if not _off and distributed.is_available():
            from _ddprun_state import collectives

            collectives.record(distributed, lambda: _ours()._agent)
    except Exception as error:
        _say_that_nothing_is_recorded(error)


def _say_that_nothing_is_recorded(error):
    """Steps are reported all the same."""
    sys.stderr.write("ddprun: --auto-step records no collectives: %s: %s\n"
                     % (type(error).__name__, error))


after_import(_MODULE, _hook, _give_up)
after_import("torch.distributed", _record, _say_that_nothing_is_recorded)
