"""The parts of the campaigns that CI runs (`--seeds ci`). All slices together, including those of CMakeLists.txt, may
take at most 5 min on two idle cores. So each slice is a few seeds. They are chosen by their plans, which are known
without a run: they have every kind of fault, and the shortest waits. They have each kind of program at least once, but
mostly C++ programs, which start fastest. test_slices.py fails if a change of the plans has removed a kind.

Measured on two idle cores, in s: root causes 10, killed trainings 21 and 20 (in place), resized ones 10, hangs 88, no
hangs 52, random faults 16, plants 10, failovers 22, rolling upgrade 3: 252 in sum.
"""

# campaign.py: each row of its table of faults. None of the first 60,000 seeds gives a faster pair that has them all.
CAMPAIGN = (2827, 51022)
# failover_campaign.py: a leader is killed, loses its power, is cut off from etcd and from agents; a rendezvous is asked to
# end; a member of etcd is killed, another one loses its power; a node is cut off.
FAILOVERS = (140, 252)
# hang_campaign.py: each kind of program, one and two nodes, and each fault. One fault is enough of those in which a
# rank waits and does nothing, and one of those in which a disk is frozen, because ddprun judges them alike. Seed 320
# has the default limits; it hangs in the first step, where the limit is half as long as later.
HANGS = (39, 91, 137, 146, 164, 187, 320)
# no_hang_campaign.py: a debugger, Ctrl-Z, a rendezvous that is away, a clock that steps, collectives within a step. The
# other situations wait longer, or test the same rule. A run fails if the naive rule does not call it a hang.
NO_HANGS = (25, 28, 32, 39, 69)


def seeds(text, in_ci):
    """The seeds of "A:B", with B, or the seeds of CI for "ci"."""
    if text == "ci":
        return list(in_ci)
    first, last = map(int, text.split(":"))
    if first > last:
        raise ValueError(text)
    return list(range(first, last + 1))
