"""The states of a training: what ddprun.Checkpointer and ddprun.DistributedSampler are made of.

Use them through the module `ddprun`, which imports this package and torch when one of them is asked
for. The files, their format and the rules for their folders are those of the C++ library's
ddp::Checkpointer (worker/include/ddp/checkpointer.h); docs/python.md says what differs.

Python 3.8 or newer and torch 1.13 or newer; nothing else.
"""
