#!/usr/bin/python3
"""Writes the seeds of the targets safetensors and torch_archive, with Debian's python3-torch:
tests/fuzz/make_tensor_seeds.py tests/fuzz/corpus. Run it again when the reader supports a new format,
and commit its output."""
import collections
import io
import json
import os
import struct
import sys
import zipfile

import torch


def write(*parts):
    path = os.path.join(sys.argv[1], *parts[:-1])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(parts[-1])


def safetensors(name, header, data):
    text = json.dumps(header).encode()
    write("safetensors", name, struct.pack("<Q", len(text)) + text + data)


def torch_save(name, value, protocol=2):
    buffer = io.BytesIO()
    torch.save(value, buffer, pickle_protocol=protocol)
    write("torch_archive", name + "_file", b"\0" + buffer.getvalue())
    with zipfile.ZipFile(buffer) as archive:
        write("torch_archive", name + "_pickle", b"\1" + archive.read("archive/data.pkl"))


def main():
    safetensors("empty", {}, b"")
    safetensors("two", {"__metadata__": {"format": "pt"},
                        "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [2, 26]},
                        "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"x" * 26)
    safetensors("shapes", {"scalar": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
                           "none": {"dtype": "BF16", "shape": [0, 7], "data_offsets": [8, 8]}},
                b"x" * 8)
    base = torch.arange(6.0).reshape(2, 3)
    plain = {"a": base, "t": base.t(), "row": base[1], "s": torch.tensor(1)}
    torch_save("plain", plain)
    torch_save("protocol_4", plain, 4)
    module = torch.nn.BatchNorm1d(1)
    torch_save("module", module.state_dict())
    torch_save("nested", {"model": collections.OrderedDict(w=torch.nn.Parameter(base)),
                          "list": [base, (1, 2.5, None, True)], 7: torch.empty(0, 3)})
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), buffer)
    with zipfile.ZipFile(buffer) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
        write("torch_archive", "script_pickle", b"\1" + archive.read(name))


main()
