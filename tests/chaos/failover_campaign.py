#!/usr/bin/python3
"""Random faults for three rendezvous on three members of etcd, and for a real job of 3 nodes with 2 workers.

    tests/chaos/failover_campaign.py --seeds 1:100 --out FILE     as root; about 20 s for each seed
    tests/chaos/failover_campaign.py --plan 17                    what seed 17 does

There are six hosts, each a network namespace: three heads with a member of etcd and a `ddprun rendezvous --etcd`, and
three nodes with an agent. A seed is a plan, drawn completely before anything starts. The leader or a waiting rendezvous
is killed, stopped, asked to end, loses power without a TCP reset, or is cut off from the other heads. The leader is
also cut off from etcd, from the agents or from all. Cuts are in both directions or in one. Members of etcd are killed,
stopped, cut off from each other or lose power; their disks do not answer, and their quorum is lost. Nodes are cut off,
their agents and workers die, and clocks step. Killed processes are started again, as by systemd.

The verdict is campaign.py's, from the workers' own time stamps: no two processes had one rank at once, and none of an
old generation lived beside one of the next; neither the generation nor the number of restarts ever went down; no
durable step was lost; every ddprun that nobody killed ended with 0; nothing is left.

Each verdict is appended to FILE as a line of JSON. Seeds with a verdict are not run again, so an interrupted campaign
continues where it stopped. A failed seed prints its plan and keeps its folder.

Needs root, what campaign.py needs, and etcd with etcdctl.
"""
import argparse
import shutil
import sys

import slices
from campaign import add_common_options, campaign, carry_out, left_out, why_impossible
from campaign_hosts import what_is_there
from campaign_job import Trouble
from campaign_verdict import Record, verdict
from failover_plan import make_plan
from failover_world import FailoverWorld


def run_job(world, plan):
    """Runs the job. Returns its record, with the missed limits and the left-overs."""
    late, left = [], []
    try:
        world.wait_for_whole()
        carry_out(world, plan)
        world.wait_for_all()
        world.wait_for_whole()
        world.count()
        world.finish()
        left = world.left() or world.unmount()
    except Trouble as trouble:
        late = [str(trouble)]
    ends = tuple(end for end in world.ends if not end.who.startswith("etcd"))
    return Record(world.lives(), ends, tuple(left), tuple(late))


def run_in(folder, seed, plan, arguments):
    """Like campaign.run_in(). Also counts how often the leader key was written."""
    with FailoverWorld(folder, seed, plan, arguments.bin) as world:
        record = run_job(world, plan)
        problems = verdict(record)
        if problems or arguments.keep:
            world.save_logs()
    problems += [f"left: {what}" for what in what_is_there(world.network.prefix, folder)]
    return problems, record, world.missed, {"leader_key_writes": world.writes}


def lacks():
    """What this machine lacks, or ""."""
    tools = [tool for tool in ("etcd", "etcdctl") if not shutil.which(tool)]
    return f"{', '.join(tools)}: scripts/install_packages.sh --tests installs them" if tools else why_impossible()


def seeds(text):
    return slices.seeds(text, slices.FAILOVERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", type=seeds, metavar="A:B", help="from A to B, B included; ci: those of CI")
    what.add_argument("--plan", type=int, metavar="SEED", help="print what a seed does")
    add_common_options(parser)
    parser.set_defaults(plant=None)
    arguments = parser.parse_args()
    if arguments.plan is not None:
        print(make_plan(arguments.plan))
        return 0
    if (why := lacks()):
        return left_out(why)
    return campaign(arguments, make_plan, run_in)


if __name__ == "__main__":
    sys.exit(main())
