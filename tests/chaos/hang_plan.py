"""The plan of a seed of hang_campaign.py: its fault, place and program. Pure: a seed has the same plan on every
machine."""
import random

# The ways in which a rank stops; hang_trainer.cc and hang_trainer.py have a function for each.
ANYWHERE = ("StopItself", "LoopForEver", "LockTwice", "SleepInLoading", "ReadFifo", "WriteFrozen", "WaitForThread")
OF_COLLECTIVES = ("SkipCollective", "MismatchedSize")  # before init there is no collective
OF_LOADERS = ("WaitForLoader",)  # a process of a DataLoader sleeps for ever; Python only
OF_CHECKPOINTERS = ("SaveFrozen",)  # the disk of the checkpoints freezes before a save
FAULTS = (*ANYWHERE, *OF_COLLECTIVES, *OF_LOADERS, *OF_CHECKPOINTERS)
PLACES = ("before_init", "first_step", "step", "checkpoint", "evaluation")
# cpp: with ddp::. module: ddprun.Checkpointer. wrapper: a shell starts Python, which reports its steps and phases.
# unmodified: --auto-step.
PROGRAMS = ("cpp", "module", "unmodified", "wrapper")
WITH_CHECKPOINTER = ("cpp", "module")
WORKERS = 2  # on each node
AUTO_EACH = 5  # every fifth seed


def fits(fault, place, program):
    if fault in OF_COLLECTIVES:
        return place != "before_init"
    if fault in OF_LOADERS:
        return program != "cpp"
    if fault in OF_CHECKPOINTERS:
        return place == "checkpoint" and program in WITH_CHECKPOINTER
    return True


CELLS = tuple((fault, place, program) for fault in FAULTS for place in PLACES for program in PROGRAMS
              if fits(fault, place, program))


def draw(seed):
    """Each cell occurs once in len(CELLS) seeds, in random order. Every fifth seed has the default limits and the
    default of `--on-hang`."""
    turn, number = divmod(seed - 1, len(CELLS))
    order = list(CELLS)
    random.Random(f"turn {turn}").shuffle(order)
    fault, place, program = order[number]
    rng = random.Random(seed)
    plan = {"fault": fault, "place": place, "program": program, "nodes": rng.choice((1, 2)),
            "limits": "auto" if seed % AUTO_EACH == 0 else "given"}
    plan["rank"] = rng.choice((0, rng.randrange(1, plan["nodes"] * WORKERS)))
    if fault in OF_CHECKPOINTERS:
        plan["rank"] = 0  # the rank that writes
    return plan


def is_restarted(plan):
    """True if the hang leads to a restart, False if it is only reported. Without `--on-hang`, a restart needs a
    program that names its phases, and that has reported a saved state or made no step yet."""
    if plan["limits"] == "given" or plan["program"] == "cpp":
        return True
    return plan["program"] == "module" and plan["place"] != "before_init"  # the Checkpointer is made after init
