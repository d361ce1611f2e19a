"""The states of a training: the implementation of ddprun.Checkpointer and
ddprun.DistributedSampler.

Use them through the module `ddprun`, which imports this package and torch at the first use. The
files, their format and the rules for their folders are the same as of the C++ library's
ddp::Checkpointer (worker/include/ddp/checkpointer.h); docs/python.md lists the differences.

Requires Python 3.8 or newer and torch 1.13 or newer, nothing else.
"""
