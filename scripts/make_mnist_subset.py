#!/usr/bin/env python3
"""Makes the subset of MNIST in tests/data/mnist from the full set.

    scripts/get_mnist.sh data/mnist
    scripts/make_mnist_subset.py data/mnist tests/data/mnist

Takes every 6th training image (0, 6, 12, ...: 10,000) and every 5th test image (0, 5, 10, ...:
2,000), with their labels. The first half of the test set is easy, so the subset has images of both halves.
The output is the same, byte for byte, each time. Standard library only.
"""

import gzip
import pathlib
import struct
import sys

STEP = {"train": 6, "t10k": 5}


def subset(data, step):
    """Every step-th item of an IDX file of bytes."""
    magic, count = struct.unpack_from(">II", data)
    dimensions = magic & 0xFF
    header = 4 + 4 * dimensions
    item = (len(data) - header) // count
    kept = range(0, count, step)
    body = b"".join(data[header + i * item:header + (i + 1) * item] for i in kept)
    return struct.pack(">II", magic, len(kept)) + data[8:header] + body


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    for part, step in STEP.items():
        for kind in ("images-idx3", "labels-idx1"):
            name = f"{part}-{kind}-ubyte"
            data = subset((source / name).read_bytes(), step)
            (target / (name + ".gz")).write_bytes(gzip.compress(data, 9, mtime=0))
            print(f"{target / name}.gz: {len(data)} bytes uncompressed")


if __name__ == "__main__":
    main()
