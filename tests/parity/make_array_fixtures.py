#!/usr/bin/env python3
"""Writes the files of arrays that tests/unit/data/array_files.cpp reads, by NumPy.

    pip install numpy==2.4.6
    python3 tests/parity/make_array_fixtures.py [output directory]

Element i of a file, in row-major order, is 7 i - 20, of floating-point numbers 7 i - 20.25, of unsigned ones the type's
largest minus 7 i, of booleans i % 3 == 0. The same files come out on every run.

<type>.npy             [2, 3], np.save; big_<type>.npy: in big-endian order
fortran.npy            [2, 3, 4] of f4 in Fortran order; fortran_big.npy: [3, 2] of i2, big-endian, too
version2.npy, version3.npy, scalar.npy, vector.npy, empty.npy
aligned_0.npy          [1, ..., 1, 100] of u1, whose header would be aligned without spaces; aligned_1.npy: with one
<type>.idx             [2, 3], big-endian, as MNIST's files
table.csv, spaces.txt  [4, 3] of f4 by np.savetxt: with a header line and commas; as np.savetxt writes by default
"""
import pathlib
import struct
import sys

import numpy as np

to = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data" / "arrays")


def array(kind, *shape):
    i = np.arange(np.prod(shape, dtype=int))
    values = {"b": lambda: i % 3 == 0, "u": lambda: np.iinfo(kind).max - 7 * i, "f": lambda: 7 * i - 20.25,
              "i": lambda: 7 * i - 20}[kind[0]]()
    return values.astype(kind).reshape(shape)


arrays = {kind: array(kind, 2, 3) for kind in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u4", "u2", "u1", "b1"]}
arrays |= {f"big_{kind}": array(kind, 2, 3).astype(">" + kind) for kind in ["f8", "f4", "i2", "u4"]}
arrays |= {f"aligned_{i}": np.arange(n, dtype="u1").reshape([1] * 13 + [n]) for i, n in enumerate([100, 10])}
arrays |= {"fortran": np.asfortranarray(array("f4", 2, 3, 4)), "scalar": array("f4"), "vector": array("f4", 5),
           "fortran_big": np.asfortranarray(array("i2", 3, 2).astype(">i2")), "empty": array("f4", 0, 3)}
to.mkdir(parents=True, exist_ok=True)
for name, values in arrays.items():
    np.save(to / f"{name}.npy", values)
for version in 2, 3:
    with open(to / f"version{version}.npy", "wb") as file:
        np.lib.format.write_array(file, array("f4", 2, 3), version=(version, 0))
for kind, code in {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}.items():
    header = struct.pack(">4B2I", 0, 0, code, 2, 2, 3)
    (to / f"{kind}.idx").write_bytes(header + arrays[kind].astype(">" + kind).tobytes())
np.savetxt(to / "table.csv", array("f4", 4, 3), fmt="%.9g", delimiter=",", header="a,b,c", comments="")
np.savetxt(to / "spaces.txt", array("f4", 4, 3))
