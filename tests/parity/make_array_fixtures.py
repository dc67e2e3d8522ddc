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

TYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u4", "u2", "u1", "b1"]
IDX = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def array(kind, *shape):
    i = np.arange(np.prod(shape, dtype=int))
    if kind[0] == "b":
        values = i % 3 == 0
    elif kind[0] == "u":
        values = np.iinfo(kind).max - 7 * i
    else:
        values = 7 * i - (20.25 if kind[0] == "f" else 20)
    return values.astype(kind).reshape(shape)


def main():
    to = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data" / "arrays")
    to.mkdir(parents=True, exist_ok=True)
    for kind in TYPES:
        np.save(to / f"{kind}.npy", array(kind, 2, 3))
    for kind in ["f8", "f4", "i2", "u4"]:
        np.save(to / f"big_{kind}.npy", array(kind, 2, 3).astype(">" + kind))
    np.save(to / "fortran.npy", np.asfortranarray(array("f4", 2, 3, 4)))
    np.save(to / "fortran_big.npy", np.asfortranarray(array("i2", 3, 2).astype(">i2")))
    for version in 2, 3:
        with open(to / f"version{version}.npy", "wb") as file:
            np.lib.format.write_array(file, array("f4", 2, 3), version=(version, 0))
    np.save(to / "scalar.npy", array("f4"))
    np.save(to / "vector.npy", array("f4", 5))
    np.save(to / "empty.npy", array("f4", 0, 3))
    for missing in 0, 1:
        extents = [1] * 13 + [100 // 10**missing]
        np.save(to / f"aligned_{missing}.npy", np.arange(extents[-1], dtype="u1").reshape(extents))
    for kind, code in IDX.items():
        values = array(kind, 2, 3)
        header = struct.pack(">BBBB", 0, 0, code, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
        (to / f"{kind}.idx").write_bytes(header + values.astype(">" + kind).tobytes())
    np.savetxt(to / "table.csv", array("f4", 4, 3), fmt="%.9g", delimiter=",", header="a,b,c", comments="")
    np.savetxt(to / "spaces.txt", array("f4", 4, 3))


main()
