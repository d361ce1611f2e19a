"""The place in a training to which a state belongs."""
import json


class State:
    """The place in the training to which a state belongs."""

    def __init__(self, step=0, epoch=0, batch=0, user=None, world_size=0, path=""):
        self.step = step  # number of finished optimizer steps in the whole training
        self.epoch = epoch  # the epoch to continue in, from 0
        self.batch = batch  # number of batches that this rank has finished in that epoch
        self.user = dict(user or {})  # the program's own texts
        self.world_size = world_size  # of the job that saved the state
        self.path = path  # of the file, on the node of the rank that had the state

    def __repr__(self):
        return "State(step=%d, epoch=%d, batch=%d, user=%r)" % (self.step, self.epoch, self.batch,
                                                               self.user)

    def metadata(self):
        return {"step": str(self.step), "epoch": str(self.epoch), "batch": str(self.batch),
                "user": json.dumps(self.user, sort_keys=True)}
