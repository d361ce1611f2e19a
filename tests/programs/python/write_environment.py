"""Writes the environment and arguments of a worker. Rank 1 fails in the first attempt if it is told to."""

import json
import os
import pathlib
import sys


def main(folder, *arguments):
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    place = pathlib.Path(folder, f"rank{os.environ['RANK']}-attempt{attempt}.json")
    place.with_suffix(".tmp").write_text(json.dumps({
        "environment": dict(os.environ),
        "arguments": arguments,
        "name": __name__,
        "unbuffered": sys.stdout.write_through,
    }))
    place.with_suffix(".tmp").rename(place)
    if "fail-once" in arguments and attempt == "0":
        other = pathlib.Path(folder, "rank0-attempt0.json")
        while not other.exists():  # else it would be stopped before it has written
            pass
        if os.environ["RANK"] == "1":
            sys.exit(3)
        while True:  # until the launcher ends it
            pass


main(*sys.argv[1:])
