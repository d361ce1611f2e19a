"""Waits to be killed in its first attempt; in the second it writes its properties."""
import json
import os
import signal
import sys

PRELOADED = "decimal" in sys.modules  # nothing here imports it

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    while True:
        signal.pause()
with open(f"{sys.argv[1]}/rank{os.environ['RANK']}.json", "w", encoding="ascii") as file:
    json.dump({"path": sys.path, "preloaded": PRELOADED, "environment": dict(os.environ), "argv": sys.argv,
               "main": __file__}, file)
