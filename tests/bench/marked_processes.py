"""Finds the workers of a benchmark: by their program, and by a mark in their environment."""
import os


def marked_processes(program, variable, value):
    """Pids of the processes that execute `program` (comm) and have VARIABLE=VALUE in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/comm", encoding="ascii", errors="replace") as file:
                if file.read() != f"{program}\n":
                    continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{variable}={value}".encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
