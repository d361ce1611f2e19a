"""The job that campaign.py breaks: three agents and a daemon, each on a host of its own, and two shared disks."""
import os

from campaign_hosts import Disk
from campaign_job import JobWorld
from campaign_plan import DAEMON, DISKS, NODES

PORT = 29400


class World(JobWorld):
    nodes = NODES
    servers = (DAEMON,)
    hosts = (DAEMON,) + NODES

    def __init__(self, folder, seed, plan, bin_folder, worker_options=()):
        self.disks = {name: Disk(folder, name) for name in DISKS}
        super().__init__(folder, seed, bin_folder, plan.nnodes,
                         [*(["snapshots"] if plan.snapshots else []), *worker_options], self.disks.values())

    def command(self, name):
        endpoint = f"{self.network.address(DAEMON)}:{PORT}"
        if name != DAEMON:
            return self.agent_command(name, endpoint)
        return [self.ddprun, "rendezvous", "--listen", endpoint, "--token-file", self.path("token"),
                "--state-dir", self.path("state")]

    def may_start(self, name):
        """An agent needs room for its folder of logs. Without room it ends with 70."""
        return name == DAEMON or not os.path.exists(self.path("logs/filler"))

    def begin(self, number, fault):
        kind, target, how = fault.kind, fault.target, fault.how
        if kind == "cut":
            self.network.cut(target, how)
        elif kind == "freeze":
            self.disks[target].freeze()
        elif kind == "fill":
            self.disks[target].fill()
        elif kind == "clock":
            self.step_clock(target, int(how.split()[0]))
        elif not (pids := self.wait(lambda: self.find(target, how), 1)):
            self.missed.append(number)
        elif kind == "stop":
            self.stop(number, pids)
        else:
            if not how.startswith("worker"):
                self._harmed[target] = how
            self.kill(pids)

    def end(self, number, fault):
        kind, target, how = fault.kind, fault.target, fault.how
        if kind == "cut":
            self.network.heal(target, how)
        elif kind == "freeze":
            self.disks[target].thaw()
        elif kind == "fill":
            self.disks[target].make_room()
        elif kind == "stop":
            self.resume(number)
        elif kind == "kill" and self._harmed[target]:
            self._awaited.add(target)
