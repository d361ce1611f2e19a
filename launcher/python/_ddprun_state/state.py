"""The place in a training that a state stands for."""
import json


class State:
    """The place in the training that a state stands for."""

    def __init__(self, step=0, epoch=0, batch=0, user=None, world_size=0, path=""):
        self.step = step  # optimizer steps finished, in the whole training
        self.epoch = epoch  # the epoch to go on in, from 0
        self.batch = batch  # batches of this rank that are finished in that epoch
        self.user = dict(user or {})  # texts that the program wants back
        self.world_size = world_size  # of the job that saved it
        self.path = path  # of the file, on the node of the rank that had it

    def __repr__(self):
        return "State(step=%d, epoch=%d, batch=%d, user=%r)" % (self.step, self.epoch, self.batch,
                                                               self.user)

    def metadata(self):
        return {"step": str(self.step), "epoch": str(self.epoch), "batch": str(self.batch),
                "user": json.dumps(self.user, sort_keys=True)}
