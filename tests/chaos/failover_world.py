"""The hosts and processes of failover_campaign.py: three heads, each with a member of etcd and a rendezvous, and three
nodes with an agent. Each head and each node is a host of its own; each member of etcd has a disk of its own."""
import signal
import threading
import time

from campaign_hosts import Disk, wait_until
from campaign_job import JobWorld, Trouble
from campaign_plan import NODES
from etcd_cluster import CLIENT_PORT, PEER_PORT, EtcdCluster
from failover_plan import ETCD_FOLLOWER, ETCD_LEADER, HEADS, LEADER, STANDBY

PORT = 29400
DISK_BYTES = 512 << 20
BACK_LIMIT_S = 10
SPACE_LIMIT_S = 30


def etcd_of(head):
    return head.replace("head", "etcd")


def rendezvous_of(head):
    return head.replace("head", "rendezvous")


class FailoverWorld(JobWorld):
    nodes = NODES
    servers = (*map(etcd_of, HEADS), *map(rendezvous_of, HEADS))
    hosts = HEADS + NODES
    disk_hosts = HEADS  # on these hosts, the member of etcd has a disk of its own

    def __init__(self, folder, seed, plan, bin_folder, worker_options=()):
        self.disks = {head: Disk(folder, head, DISK_BYTES) for head in self.disk_hosts}
        super().__init__(folder, seed, bin_folder, plan.nnodes, worker_options, self.disks.values())
        self.etcd = EtcdCluster(self.network, HEADS, self.ddprun, folder)
        self.told = []  # for people: on which host each fault happened
        self.writes = 0  # how often the leader key was written: by takeovers and a few other writes
        self._validities = dict(zip(HEADS, plan.validities))
        self._leader = HEADS[0]  # the last known leader
        self._met = {}  # for each fault: its head or node
        self._off = set()  # heads without power

    # ---- processes ----

    def host_of(self, name):
        return name if name in NODES else "head" + name[-1]

    def prepare(self):
        self.etcd.make_certificates()

    @property
    def endpoints(self):
        return ",".join(f"{self.network.address(head)}:{PORT}" for head in HEADS)

    def command(self, name):
        if name in NODES:
            return self.agent_command(name, self.endpoints)
        head = self.host_of(name)
        if name == etcd_of(head):
            return self.etcd.member(head, self.path(f"{head}/data"))
        return [self.ddprun, "rendezvous", "--listen", f"{self.network.address(head)}:{PORT}",
                "--token-file", self.path("token"), *self.etcd.flags(head),
                "--leader-validity", f"{self._validities[head]}s", *self.rendezvous_options(head)]

    def rendezvous_options(self, _):
        """Further flags of a rendezvous."""
        return []

    def may_start(self, name):
        return self.host_of(name) not in self._off

    def wait_for_all(self):
        """Waits until every process that was killed or asked to end has ended, and runs again."""
        if not self.wait(lambda: not self._awaited, BACK_LIMIT_S):
            raise Trouble(f"not ended {BACK_LIMIT_S} s after what was done to them: {sorted(self._awaited)}")

    def finish_servers(self):
        """Ends etcd last, because the leader hands over. Kills it: members that end one after the other take 5 s."""
        self.terminate([rendezvous_of(head) for head in HEADS])
        for head in HEADS:
            self.kill(self.find(etcd_of(head), "etcd"))

    # ---- who is who ----

    def leading(self):
        """The head of the leader, or of the last known leader."""
        key = self.etcd.leader_key()
        if key:
            self._leader = key["head"]
        return self._leader

    def resolve(self, target):
        """The name of the target's host: for a role, the head that has the role now."""
        if target == LEADER:
            return self.leading()
        if target == STANDBY:
            leader = self.leading()
            return next(head for head in HEADS if head != leader)
        if target in (ETCD_LEADER, ETCD_FOLLOWER):
            leader = self.etcd.leader() or HEADS[0]
            return leader if target == ETCD_LEADER else next(head for head in HEADS if head != leader)
        return target

    def count(self):
        self.writes = (self.etcd.leader_key() or {"writes": 0})["writes"]

    def save_logs(self):
        super().save_logs()
        with open(self.path("faults.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(self.told) + "\n")

    # ---- faults ----

    def begin(self, number, fault):
        target = self._met[number] = self.resolve(fault.target)
        self.told.append(f"{time.strftime('%H:%M:%S')} {fault} -> {target}")
        getattr(self, "_begin_" + fault.kind)(number, target, fault.how)

    def end(self, number, fault):
        end = getattr(self, "_end_" + fault.kind, None)
        if end and number not in self.missed:
            end(number, self._met[number], fault.how)

    def _found(self, number, name, what):
        pids = self.wait(lambda: self.find(name, what), 1)
        if not pids:
            self.missed.append(number)
        return pids

    @staticmethod
    def _name(target, how):
        """The name of the process (or of the node) that a fault concerns."""
        return {"daemon": rendezvous_of, "etcd": etcd_of}.get(how, str)(target)

    def _begin_kill(self, number, target, how, signo=signal.SIGKILL, harm=None):
        name = self._name(target, how)
        if not (pids := self._found(number, name, how)):
            return
        if not how.startswith("worker"):
            self._harmed[name] = harm or how
        self.kill(pids, signo)

    def _end_kill(self, _, target, how):
        name = self._name(target, how)
        if self._harmed[name]:
            self._awaited.add(name)

    def _begin_end(self, number, target, how):
        self._begin_kill(number, target, how, signal.SIGTERM, "asked")

    _end_end = _end_kill

    def _begin_stop(self, number, target, how):
        self.stop(number, self._found(number, self._name(target, how), how))

    def _end_stop(self, number, *_):
        self.resume(number)

    def _begin_quorum(self, number, *_):
        leader = self.etcd.leader() or HEADS[0]
        other = next(head for head in HEADS if head != leader)
        self.stop(number, [pid for head in (leader, other) for pid in self.find(etcd_of(head), "etcd")])

    _end_quorum = _end_stop

    def _begin_power(self, number, target, _):
        if target in self._off:
            self.missed.append(number)
            return
        self._off.add(target)
        self.network.unplug(target)
        for name in (etcd_of(target), rendezvous_of(target)):
            if self.runs(name):
                self._harmed[name] = "all"
        self.kill(self.network.pids(target))

    def _end_power(self, _, target, __):
        self.network.plug_in(target)
        self._off.discard(target)
        for name in (etcd_of(target), rendezvous_of(target)):
            if self._harmed[name]:
                self._awaited.add(name)

    def _begin_cut(self, number, target, how):
        what, _, way = how.rpartition(" ")
        self.network.drop(number, self._cut_rules(target, what, way))

    def _end_cut(self, number, *_):
        self.network.allow(number)

    def _cut_rules(self, target, what, way):
        """`way`: "from": packets from the target are lost; "to": packets to the target are lost; or "both"."""
        ways = [one for one in ("from", "to") if way in (one, "both")]
        if what == "etcd":  # on the host itself, because a member of etcd runs there, too
            rules = {"from": (target, "output", f"tcp dport {CLIENT_PORT}"),
                     "to": (target, "input", f"tcp sport {CLIENT_PORT}")}
            return [rules[one] for one in ways]
        if what == "peers":
            return [("net", "forward", f"{'iifname' if one == 'from' else 'oifname'} {target} tcp {port} {PEER_PORT}")
                    for one in ways for port in ("sport", "dport")]
        others = {"heads": [head for head in HEADS if head != target], "agents": NODES}.get(what)
        far = "{ " + ", ".join(others) + " }" if others else ""
        near_far = {"from": ("iifname", "oifname"), "to": ("oifname", "iifname")}
        return [("net", "forward", f"{near_far[one][0]} {target}" + (f" {near_far[one][1]} {far}" if far else ""))
                for one in ways]

    def _begin_disk(self, _, target, __):
        self.disks[target].freeze()

    def _end_disk(self, _, target, __):
        self.disks[target].thaw()

    def _begin_move(self, number, *_):
        if not self.etcd.move_leader(self.leading()):
            self.missed.append(number)

    def _begin_compact(self, number, *_):
        revision = self.etcd.revision()
        if revision is None or self.etcd.ctl("compact", str(revision)) is None:
            self.missed.append(number)

    def _begin_space(self, number, *_):
        if not self.etcd.set_full():
            self.missed.append(number)

    def _end_space(self, *_):
        # Not awaited: this needs a quorum, which may return only with the end of another fault.
        threading.Thread(target=wait_until, args=(self.etcd.has_space_again, SPACE_LIMIT_S, 0.2), daemon=True).start()

    def _begin_clock(self, _, target, how):
        self.step_clock(target, int(how.split()[0]))
