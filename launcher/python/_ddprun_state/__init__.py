"""Implements ddprun.Checkpointer, ddprun.DistributedSampler and ddprun.record_collectives().

Use them through the module `ddprun`. Their first use imports this package and torch. The files,
their format and the rules for their folders are the same as those of the C++ library's
ddp::Checkpointer (worker/include/ddp/checkpointer.h). docs/python.md lists the differences.

Requires Python 3.8 or newer and torch 1.13 or newer, nothing else.
"""
