#!/usr/bin/python3
"""A rolling upgrade of the rendezvous, and back: this version and the next one lead in turn.

    tests/chaos/rolling_upgrade.py [BIN]        as root

The next version is ddprun_next (CMakeLists.txt). It writes one more field into the record of a job, and one more into
the header of every message. One of the three agents has the next version all the time. Each head in turn ends its
rendezvous by SIGTERM and starts the other version, until all heads have it. No worker may notice. Then a worker is
killed: the leader forms the next generation, and writes the record with the field or without it, as its version does.
The way back is the same. Needs what failover_campaign.py needs.
"""
import base64
import json
import os
import shutil
import sys
import tempfile

from campaign import ROOT, left_out
from campaign_job import Trouble
from campaign_verdict import Record, verdict
from failover_campaign import lacks
from failover_plan import HEADS, Plan
from failover_world import FailoverWorld, rendezvous_of

STATE = "/ddprun/state/"
FIELD_1000 = b"\xc0\x3e\x07"  # the field in a record: number 1000, value 7
UP, DOWN = "up", "down"


class UpgradeWorld(FailoverWorld):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._of_next = {"node1"}  # names of the processes of the next version

    def command(self, name):
        command = super().command(name)
        if name not in self._of_next:
            return command
        return [os.path.join(self.bin, "ddprun_next") if word == self.ddprun else word for word in command]

    def change(self, direction):
        """Changes every rendezvous in turn to the next version, or back to this version."""
        for head in HEADS:
            name = rendezvous_of(head)
            (self._of_next.add if direction == UP else self._of_next.discard)(name)
            self._begin_end(0, head, "daemon")
            self._end_end(0, head, "daemon")
            self.wait_for_all()
            self.wait_for_whole()

    def has_field(self):
        """True if the record of the job has the field of the next version."""
        answer = json.loads(self.etcd.ctl("get", STATE, "--prefix", "-w", "json"))
        records = [base64.b64decode(one["value"]) for one in answer.get("kvs", ())
                   if self.job in base64.b64decode(one["key"]).decode()]
        if not records:
            raise Trouble("no record of the job in etcd")
        return any(FIELD_1000 in record for record in records)

    def restart_workers(self):
        generation = max(life.generation for life in self.lives())
        self._begin_kill(0, "node1", "worker0")
        if not self.wait(lambda: any(life.generation > generation for life in self.lives()), 20):
            raise Trouble("no generation has formed since a worker was killed")
        self.wait_for_whole()


def run(world):
    """Runs the upgrade and the way back. Returns the errors."""
    late = []
    try:
        world.wait_for_whole()
        for turn, direction in enumerate((UP, DOWN)):
            world.change(direction)
            generations = {life.generation for life in world.lives()}
            if generations != set(range(turn + 1)):
                raise Trouble(f"a change of version has ended generations: {sorted(generations)}")
            world.restart_workers()
            if world.has_field() != (direction == UP):
                raise Trouble(f"the version that was changed to ({direction}) has not written the record")
        world.finish()
    except Trouble as trouble:
        late = [str(trouble)]
    ends = tuple(end for end in world.ends if not end.who.startswith("etcd"))
    return verdict(Record(world.lives(), ends, (), tuple(late)))


def main():
    if (why := lacks()):
        return left_out(why)
    folder = tempfile.mkdtemp(prefix="ddprun-upgrade-")
    with UpgradeWorld(folder, 0, Plan("3", (5, 5, 5), ()), sys.argv[1] if sys.argv[1:] else ROOT + "/build/bin") as world:
        problems = run(world)
    print("\n".join(problems) or "two versions have led in turn, in both directions: no worker noticed")
    if problems:
        print(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
