"""The messages between a Checkpointer and ddprun's agent on this node
(worker/contract/control.h). Without ddprun no message is sent."""
import sys


def _module():
    import ddprun

    return ddprun


def say(key, value):
    _module()._say(key, value)


def saved(tier, seconds):
    """Sends the time since the state was copied, in microseconds. Call it after CHECKPOINT or
    SNAPSHOT was sent. `tier`: "durable" (a file on a disk) or "memory" (a snapshot)."""
    say("SAVED", "%s %d" % (tier, seconds * 1e6))


def phase(name):
    """Reports a phase of the C++ library. ddprun measures restarts by these phases."""
    _module()._tell_library_phase(name)


def saving():
    """Returns a context: the phase `checkpoint`. So ddprun does not count the time of a save as
    that of a step."""
    return _module().phase("checkpoint")


def step(number):
    _module().step(number)


def save_requests():
    """The number of the agent's requests for a checkpoint so far."""
    return _module()._save_requests()


def warn(rank, text):
    sys.stderr.write("[rank %d] warning: %s\n" % (rank, text))
    sys.stderr.flush()
