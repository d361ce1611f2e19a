#!/usr/bin/python3
"""A rolling upgrade of the rendezvous: this version and a later one lead in turn, in both directions.

    tests/chaos/rolling_upgrade.py        as root

The later version has one more field in the record of a job. It is this program, and the field is added to the records
in etcd while no rendezvous runs; it is an unknown field to the one that leads next. That one has to take the job up as
it is: the workers run on. Then it forms a generation, which writes the record without the field, as a later version
finds it that leads again. Needs what failover_campaign.py needs.
"""
import base64
import json
import shutil
import sys
import tempfile

from campaign import ROOT, left_out
from campaign_job import Trouble
from campaign_verdict import Record, verdict
from failover_campaign import lacks
from failover_plan import HEADS, Plan
from failover_world import FailoverWorld, rendezvous_of

TURNS = 2
STATE = "/ddprun/state/"
WHOLE = 0x0A  # the tag of StoredValue.whole: field 1, bytes
FIELD_1000 = b"\xc0\x3e\x07"  # of JobRecord: a number, 7


def varint(data, at):
    """Its value, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return value, at


def to_varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def with_field(stored):
    """A StoredValue whose record has one more field."""
    if stored[0] != WHOLE:
        raise Trouble(f"no StoredValue with a record in it: {stored[:20]}")
    size, start = varint(stored, 1)
    record = stored[start:start + size] + FIELD_1000
    return bytes([WHOLE]) + to_varint(len(record)) + record + stored[start + size:]


class UpgradeWorld(FailoverWorld):
    def states(self):
        """The durable state: values by key."""
        answer = json.loads(self.etcd.ctl("get", STATE, "--prefix", "-w", "json"))
        return {base64.b64decode(one["key"]).decode(): base64.b64decode(one["value"])
                for one in answer.get("kvs", ())}

    def upgrade(self):
        """Every rendezvous ends. A later version has led meanwhile; and this one leads again."""
        for head in HEADS:
            self._begin_kill(0, head, "daemon")
        if not self.wait(lambda: not any(self.runs(rendezvous_of(head)) for head in HEADS), 5):
            raise Trouble("killed, and not gone")
        records = {key: value for key, value in self.states().items() if self.job in key}
        if not records:
            raise Trouble(f"no record of the job in etcd: {sorted(self.states())}")
        for key, value in records.items():
            self.etcd.ctl("put", key, stdin=with_field(value))
        for head in HEADS:
            self._end_kill(0, head, "daemon")
        self.wait_for_all()

    def has_field(self):
        return any(FIELD_1000 in value for value in self.states().values())

    def restart_workers(self):
        generation = max(life.generation for life in self.lives())
        self._begin_kill(0, "node1", "worker0")
        if not self.wait(lambda: any(life.generation > generation for life in self.lives()), 20):
            raise Trouble("no generation has formed since a worker was killed")
        self.wait_for_whole()


def run(world):
    """What is wrong."""
    late = []
    try:
        world.wait_for_whole()
        for turn in range(TURNS):
            world.upgrade()
            if not world.has_field():
                raise Trouble("the later version's field is not in etcd")
            world.wait_for_whole()
            generations = {life.generation for life in world.lives()}
            if generations != set(range(turn + 1)):
                raise Trouble(f"a change of version has ended generations: {sorted(generations)}")
            world.restart_workers()
            if world.has_field():
                raise Trouble("the record was not written anew")
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
    print("\n".join(problems) or f"{TURNS} changes of version in both directions: no worker noticed")
    if problems:
        print(f"logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
