"""Weights between Python's PyTorch and ddp::: each loads the other's files, equal to the last bit.

The test makes harmful files with Python's own pickle, zipfile and json. They must be refused with little memory, and no
code in them may run. Debian has no safetensors package for Python, so this file reads and writes the format with
struct, json and torch.frombuffer.
"""
import collections
import json
import os
import pickle
import struct
import subprocess
import tempfile
import unittest
import zipfile

import torch

TOOL = os.environ["STATE_DICT_TOOL"]

SAFETENSORS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
}
# c10::toString's names.
NAMES = {
    torch.float64: "Double", torch.float32: "Float", torch.float16: "Half",
    torch.bfloat16: "BFloat16", torch.int64: "Long", torch.int32: "Int", torch.int16: "Short",
    torch.int8: "Char", torch.uint8: "Byte", torch.bool: "Bool",
    torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}


def net():
    torch.manual_seed(7)
    module = torch.nn.Module()
    module.conv = torch.nn.Conv2d(1, 2, 3)
    module.norm = torch.nn.BatchNorm2d(2)
    module.body = torch.nn.Sequential(
        torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        module.norm.running_mean.uniform_()
        module.norm.num_batches_tracked.fill_(3)
    return module


def everything():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tensors = collections.OrderedDict()
    for dtype, name in NAMES.items():
        tensors["dtype." + name] = torch.tensor([1, 0, 3]).to(dtype)
    tensors["transposed"] = base.t()
    tensors["row"] = base[2]
    tensors["every_other"] = base[:, 1::2]
    tensors["expanded"] = torch.full((1,), 7.0).expand(3)
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.empty(0, 3)
    tensors["parameter"] = torch.nn.Parameter(torch.ones(2))
    tensors["nan"] = torch.tensor([float("nan"), float("inf"), -0.0])
    tensors["name with spaces, ü and \"quotes\""] = torch.ones(1)
    return tensors


def raw(tensor):
    """The bytes of the elements in order."""
    tensor = tensor.detach().contiguous()
    return bytes(torch.empty(0, dtype=torch.uint8).set_(
        tensor.storage()._untyped() if hasattr(tensor.storage(), "_untyped")
        else tensor.storage().untyped()).numpy()) if tensor.numel() else b""


def text(values):
    return "[" + ", ".join(map(str, values)) + "]"


def described(tensors, views=True):
    """What `state_dict_tool describe` should print."""
    lines = []
    for name, tensor in tensors.items():
        if not views:
            tensor = tensor.detach().contiguous().clone()
        lines.append("\t".join([name, NAMES[tensor.dtype], text(tensor.shape),
                                text(tensor.stride()), str(tensor.storage_offset()),
                                raw(tensor.detach().clone(
                                    memory_format=torch.contiguous_format)).hex()]))
    return lines


def read_safetensors(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    assert header.pop("__metadata__")["format"] == "pt"
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = SAFETENSORS[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
        else:
            tensors[name] = torch.frombuffer(
                bytearray(data[begin:end]), dtype=dtype).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        piece = raw(tensor.detach().clone(memory_format=torch.contiguous_format))
        dtype = next(n for n, d in SAFETENSORS.items() if d == tensor.dtype)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def setUpModule():
    Base.server = subprocess.Popen([TOOL, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    unittest.addModuleCleanup(Base.server.communicate)


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_tool(self, *arguments, limit=None):
        """Runs the tool in a process that the server forks, so that it need not load libtorch."""
        out, err = self.path("tool.out"), self.path("tool.err")
        Base.server.stdin.write("\t".join([out, err, str(limit or 0), *arguments]) + "\n")
        Base.server.stdin.flush()
        code = int(Base.server.stdout.readline())
        with open(out, encoding="utf-8") as stdout, open(err, encoding="utf-8") as stderr:
            return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())

    def tool(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def assert_same(self, got, expected):
        self.assertEqual(list(got), list(expected))
        for name, tensor in expected.items():
            self.assertEqual(got[name].dtype, tensor.dtype, name)
            self.assertEqual(got[name].shape, tensor.shape, name)
            self.assertEqual(raw(got[name].clone()), raw(tensor.detach().clone(
                memory_format=torch.contiguous_format)), name)


class FromPython(Base):
    def test_every_dtype_and_view(self):
        for kind in (collections.OrderedDict, dict):
            for protocol in (2, 3, 4, 5):
                tensors = kind(everything())
                torch.save(tensors, self.path("a.pt"), pickle_protocol=protocol)
                self.assertEqual(self.tool("describe", self.path("a.pt")), described(tensors))

    def test_a_state_dict_with_and_without_the_wrappers_prefix(self):
        weights = net().state_dict()
        self.assertTrue(hasattr(weights, "_metadata"))
        for wrapped in (False, True):
            saved = collections.OrderedDict(
                (("module." if wrapped else "") + name, tensor)
                for name, tensor in weights.items())
            torch.save(saved if wrapped else weights, self.path("a.pt"))
            self.tool("train", self.path("a.pt"), self.path("b.pt"))
            loaded = torch.load(self.path("b.pt"))
            self.assert_same(loaded, collections.OrderedDict(
                (name, tensor + 1) for name, tensor in weights.items()))
            net().load_state_dict(loaded)  # strict

    def test_a_prefix_of_another_name_stays(self):
        torch.save({"my_module.x": torch.ones(1)}, self.path("a.pt"))
        self.assertTrue(self.tool("describe", self.path("a.pt"))[0].startswith("my_module.x\t"))
        saved = {"my_module." + name: tensor for name, tensor in net().state_dict().items()}
        torch.save(saved, self.path("a.pt"))
        done = self.run_tool("train", self.path("a.pt"), self.path("b.pt"))
        self.assertEqual(done.returncode, 1)
        for name in net().state_dict():
            self.assertIn(name, done.stderr)
            self.assertIn("my_module." + name, done.stderr)

    def test_a_training_checkpoint(self):
        module = net()
        optimizer = torch.optim.Adam(module.parameters())
        module.body(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
                    "loss": 0.25, "best": None, "names": ["a", "b"]}, self.path("a.pt"))
        names = [line.split("\t")[0] for line in self.tool("describe", self.path("a.pt"))]
        self.assertEqual(names[:len(module.state_dict())],
                         ["model." + name for name in module.state_dict()])
        self.assertIn("optimizer.state.4.exp_avg", names)

    def test_tied_weights_are_one_storage(self):
        weight = torch.ones(2, 3)
        torch.save({"a": weight, "b": weight, "c": weight.t()}, self.path("a.pt"))
        self.tool("resave", self.path("a.pt"), self.path("b.pt"))
        loaded = torch.load(self.path("b.pt"))
        self.assertEqual(len({t.data_ptr() for t in loaded.values()}), 1)

    def test_safetensors(self):
        tensors = everything()
        del tensors["dtype.ComplexDouble"]
        write_safetensors(self.path("a.safetensors"), tensors)
        lines = self.tool("describe", self.path("a.safetensors"))
        self.assertEqual(sorted(lines), sorted(described(tensors, views=False)))

    def test_the_format_before_1_6_is_refused_with_advice(self):
        torch.save({"a": torch.ones(1)}, self.path("a.pt"),
                   _use_new_zipfile_serialization=False)
        done = self.run_tool("describe", self.path("a.pt"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("save it again", done.stderr)

    def test_torchscript(self):
        torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 1))).save(self.path("a.pt"))
        names = [line.split("\t")[0] for line in self.tool("describe", self.path("a.pt"))]
        self.assertEqual(names, ["0.weight", "0.bias"])


class ToPython(Base):
    def test_torch_load_reads_every_dtype_and_view(self):
        tensors = everything()
        torch.save(tensors, self.path("a.pt"))
        self.tool("resave", self.path("a.pt"), self.path("b.pt"))
        for weights_only in (False, True):
            loaded = torch.load(self.path("b.pt"), weights_only=weights_only)
            self.assertIsInstance(loaded, collections.OrderedDict)
            self.assert_same(loaded, tensors)
            for name, tensor in tensors.items():
                self.assertEqual(loaded[name].stride(), tensor.stride(), name)
            loaded["transposed"].fill_(-1)  # the same storage
            self.assertEqual(loaded["row"][0], -1)
        with zipfile.ZipFile(self.path("b.pt")) as archive:
            self.assertIsNone(archive.testzip())

    def test_safetensors(self):
        tensors = everything()
        del tensors["dtype.ComplexDouble"]
        torch.save(tensors, self.path("a.pt"))
        self.tool("resave", self.path("a.pt"), self.path("b.safetensors"))
        loaded = read_safetensors(self.path("b.safetensors"))
        self.assert_same({name: loaded[name] for name in tensors}, tensors)
        self.assertEqual(len(loaded), len(tensors))


class Malicious:
    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


class Hostile(Base):
    LIMIT = 1 << 30  # of the address space; libtorch alone takes a large part of it

    def refused(self, path, reason):
        done = self.run_tool("describe", path, limit=self.LIMIT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(reason, done.stderr)

    def test_the_limit_is_enough_for_what_is_not_hostile(self):
        torch.save(net().state_dict(), self.path("a.pt"))
        done = self.run_tool("describe", self.path("a.pt"), limit=self.LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_code_is_not_run(self):
        ran = self.path("ran")
        for call in ((os.system, (f"touch {ran}",)),
                     (eval, (f"open({ran!r}, 'w')",)),
                     (subprocess.Popen, (["touch", ran],)),
                     (getattr, ("text", "upper"))):
            for protocol in (2, 4):
                torch.save({"a": torch.ones(1), "b": Malicious(call)}, self.path("a.pt"),
                           pickle_protocol=protocol)
                self.refused(self.path("a.pt"), "nothing was run")
        self.assertFalse(os.path.exists(ran))
        # The files are really harmful: Python runs their code.
        torch.save({"b": Malicious((os.system, (f"touch {ran}",)))}, self.path("a.pt"))
        torch.load(self.path("a.pt"), weights_only=False)
        self.assertTrue(os.path.exists(ran))

    def rewrite(self, change, name="data.pkl"):
        """A file of torch.save in which `change` has changed the entry `name`."""
        torch.save({"a": torch.arange(4.0)}, self.path("good.pt"))
        with zipfile.ZipFile(self.path("good.pt")) as good, \
                zipfile.ZipFile(self.path("bad.pt"), "w") as bad:
            for item in good.namelist():
                content = good.read(item)
                bad.writestr(item, change(content) if item.endswith(name) else content)
        return self.path("bad.pt")

    def test_python_made_zips_are_read(self):
        self.assertEqual(len(self.tool("describe", self.rewrite(lambda content: content))), 1)

    def test_a_tensor_larger_than_its_storage(self):
        # The shape is (4,): BININT1 4, TUPLE1. The changed file says 2**31 - 1 instead of 4.
        def change(content):
            self.assertEqual(content.count(b"K\x00K\x04\x85"), 1)
            return content.replace(b"K\x00K\x04\x85", b"K\x00J\xff\xff\xff\x7f\x85")
        self.refused(self.rewrite(change), "reaches element")

    def test_a_storage_larger_than_its_entry(self):
        def change(content):
            self.assertEqual(content.count(b"K\x04tq"), 1)
            return content.replace(b"K\x04tq", b"\x8a\x06\x00\x00\x00\x00\x00\x01tq")
        self.refused(self.rewrite(change), "but the file has only 16")

    def test_a_compressed_storage(self):
        with zipfile.ZipFile(self.path("bomb.pt"), "w", zipfile.ZIP_DEFLATED) as bomb, \
                zipfile.ZipFile(self.rewrite(lambda content: content)) as good:
            for item in good.namelist():
                bomb.writestr(item, b"\0" * (64 << 20) if item.endswith("data/0")
                              else good.read(item),
                              zipfile.ZIP_DEFLATED if item.endswith("data/0")
                              else zipfile.ZIP_STORED)
        self.refused(self.path("bomb.pt"), "compressed")

    def test_every_truncation(self):
        path = self.rewrite(lambda content: content)
        with open(path, "rb") as file:
            content = file.read()
        for size in range(0, len(content), max(1, len(content) // 8)):
            with open(self.path("short.pt"), "wb") as file:
                file.write(content[:size])
            self.assertEqual(self.run_tool("describe", self.path("short.pt")).returncode, 1)

    def test_a_pickle_that_is_no_dict_of_tensors(self):
        for value in (3, "text", 2.5, None):
            torch.save(value, self.path("a.pt"))
            self.refused(self.path("a.pt"), "state_dict")
        torch.save(torch.ones(2), self.path("a.pt"))
        self.refused(self.path("a.pt"), "a tensor, not a state_dict")
        torch.save(net(), self.path("a.pt"))  # a whole module: classes
        self.refused(self.path("a.pt"), "nothing was run")

    def test_a_plain_pickle(self):
        with open(self.path("a.pkl"), "wb") as file:
            pickle.dump({"a": 1}, file)
        self.refused(self.path("a.pkl"), "neither")

    def test_sparse_and_quantized_tensors(self):
        for tensor in (torch.ones(2, 2).to_sparse(),
                       torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)):
            torch.save({"a": tensor}, self.path("a.pt"))
            self.refused(self.path("a.pt"), "not among")

    def test_safetensors_that_claim_more_than_they_have(self):
        def write(header, data=b""):
            text = json.dumps(header).encode()
            with open(self.path("a.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + data)
            return self.path("a.safetensors")
        huge = {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
        self.refused(write(huge), "ends at byte")
        with open(self.path("b.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", (1 << 64) - 1) + b"{}")
        self.refused(self.path("b.safetensors"), "too short for its header")


if __name__ == "__main__":
    unittest.main()
