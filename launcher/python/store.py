# For --store agent: adapts torch's rendezvous, in an unmodified script, to a store that an agent
# serves. docs/store.md has the reasons.
#
# If a process looks for the store at another port than MASTER_PORT, this file tells ddprun. No
# process listens there, because torch makes every rank a client. Each further process group of the
# same world size gets its own keys, because those of the first group are still in the store.
#
# torch 2.x asks for libuv by default, also in a client. A torch that was built without libuv, such
# as Debian's, then fails, and this file tries again without it.
from _ddprun_after_import import after_import


def _hook(module):
    create = getattr(module, "_create_c10d_store", None)
    if create is None:
        return
    module.TCPStore = _also_without_libuv(module.TCPStore)
    made = {}  # for each world size: the number of groups made, which is equal on all ranks

    def _create_c10d_store(hostname, port, rank, world_size, *args, **kwargs):
        is_the_agents = _is_the_agents(hostname, port)
        store = create(hostname, port, rank, world_size, *args, **kwargs)
        if not is_the_agents:
            return store
        made[world_size] = made.get(world_size, 0) + 1
        if made[world_size] == 1:
            return store
        from torch.distributed import PrefixStore

        return PrefixStore("ddprun/%d" % made[world_size], store)

    module._create_c10d_store = _create_c10d_store


def _also_without_libuv(make):
    def TCPStore(*args, **kwargs):
        try:
            return make(*args, **kwargs)
        except RuntimeError as error:
            if "without libuv" not in str(error):
                raise
        kwargs["use_libuv"] = False
        return make(*args, **kwargs)

    return TCPStore


def _is_the_agents(hostname, port):
    import os

    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return False
    if str(port) == os.environ.get("MASTER_PORT"):
        return True
    try:
        _tell("STORE=%s:%d" % (hostname, port))
    except Exception:
        pass
    return False


def _tell(text):
    import os
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.setblocking(False)
        agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
        agent.send(text.encode())


after_import("torch.distributed.rendezvous", _hook, lambda error: None)
