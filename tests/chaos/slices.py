"""What CI runs of the campaigns (`--seeds ci`). All slices of all campaigns, those of CMakeLists.txt too, are to take
at most 5 min in sum on two cores of their own. So each is a few seeds, chosen by their plans, which are known without
running anything: every kind of fault, the shortest waits, and C++ programs, which start soonest, where one of each
other kind is there. test_slices.py fails where a change of the plans has taken a kind out.

Expected, in s: root causes 10, killed trainings 25, resized ones 12, hangs 110, no hangs 50, random faults 60, plants 11.
"""

# campaign.py: each row of its table of faults.
CAMPAIGN = (54, 55, 56)
# hang_campaign.py: each fault, each kind of program, one and two nodes.
HANGS = (24, 43, 46, 77, 79, 83, 116, 188, 192)
# no_hang_campaign.py: a debugger, Ctrl-Z, a rendezvous that is away, a clock that steps. Others wait longer, or for
# the same rule.
NO_HANGS = (15, 18, 25, 55)


def seeds(text, in_ci):
    """The seeds of "A:B", B included, or those of CI for "ci"."""
    if text == "ci":
        return list(in_ci)
    first, last = map(int, text.split(":"))
    if first > last:
        raise ValueError(text)
    return list(range(first, last + 1))
