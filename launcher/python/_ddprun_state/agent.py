"""What a Checkpointer and ddprun's agent on this node say to each other
(worker/contract/control.h). Without ddprun nothing is said."""
import sys


def _module():
    import ddprun

    return ddprun


def say(key, value):
    _module()._say(key, value)


def saved(tier, seconds):
    """After CHECKPOINT or SNAPSHOT: the time since the state was copied."""
    say("SAVED", "%s %d" % (tier, seconds * 1e6))


def phase(name):
    """As PHASE of the C++ library: ddprun measures restarts by them."""
    _module()._tell_library_phase(name)


def saving():
    """A context: what a file takes is not what a step takes."""
    return _module().phase("checkpoint")


def step(number):
    _module().step(number)


def save_requests():
    """How often the agent has asked for a checkpoint, so far."""
    return _module()._save_requests()


def warn(rank, text):
    sys.stderr.write("[rank %d] warning: %s\n" % (rank, text))
    sys.stderr.flush()
