"""Runs a program that uses ddprun.Checkpointer, and ends a process when a step is finished. The program makes a
snapshot after every second step, so it is known which steps can be lost.

usage: kill_in_training.py FAULT,... PROGRAM ARGUMENTS...
FAULT is GENERATION:RANK:STEP:worker or GENERATION:RANK:STEP:agent. It ends the process of this rank, or the agent of
its node.
"""

import os
import runpy
import signal
import socket
import struct
import sys

import ddprun


def agent_pid():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
        peer = agent.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", peer)[0]


def main():
    faults, program = sys.argv[1:3]
    here = "%s:%s:" % (os.environ["DDPRUN_GENERATION"], os.environ["RANK"])
    make, step = ddprun.Checkpointer.__init__, ddprun.Checkpointer.step

    def make_with_snapshots(self, *arguments, **named):
        make(self, *arguments, snapshot_every=2, **named)

    def step_and_end(self, *arguments, **named):
        step(self, *arguments, **named)
        for fault in faults.split(","):
            if fault.startswith(here + "%d:" % self.state.step):
                os.kill(agent_pid() if fault.endswith("agent") else os.getpid(), signal.SIGKILL)

    ddprun.Checkpointer.__init__, ddprun.Checkpointer.step = make_with_snapshots, step_and_end
    sys.argv = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")


main()
