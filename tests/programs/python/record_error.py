"""Rank 1 fails in a function under torch's @record, or writes its error file itself."""

import json
import os
import sys
import time

from torch.distributed.elastic.multiprocessing.errors import record

MESSAGE = "the learning rate is -1"


@record
def fail_under_record():
    raise ValueError(MESSAGE)


def fail_with_a_plain_message():
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": f"ValueError: {MESSAGE}"}, file)
    sys.exit(1)


def main(how):
    if os.environ["RANK"] != "1":
        time.sleep(1000)  # until the launcher ends it
    if how == "record":
        fail_under_record()
    fail_with_a_plain_message()


main(sys.argv[2])
