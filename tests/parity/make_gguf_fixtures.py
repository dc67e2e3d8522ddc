#!/usr/bin/env python3
"""Writes values.gguf with the package gguf: metadata of each type, and tensors of each type that gradus reads, each
with what the package reads in them as F32 beside it.

    python3 tests/parity/make_gguf_fixtures.py [output directory]
"""
import sys
from pathlib import Path

import gguf
import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data"
TYPES = gguf.GGMLQuantizationType


def blocks(type, rows, random):
    """Random bytes, of which the scales in f16 are small numbers."""
    _, size = gguf.GGML_QUANT_SIZES[type]
    raw = random.integers(0, 256, (rows, size), dtype=np.uint8)
    for at in {TYPES.Q4_K: (0, 2), TYPES.Q6_K: (208,)}[type]:
        raw[:, at:at + 2] = random.normal(0, 0.1, (rows, 1)).astype(np.float16).view(np.uint8)
    return raw


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(5)
    file = gguf.GGUFWriter(folder / "values.gguf", "test")
    for kind, value in dict(uint8=200, int8=-100, uint16=60000, int16=-30000, uint32=4000000000, int32=-2000000000,
                            float32=0.5, bool=True, string="größer", uint64=2**63, int64=-2**62, float64=0.1).items():
        getattr(file, f"add_{kind}")(f"one.{kind}", value)
    file.add_array("list.int32", [1, -2, 3])
    file.add_array("list.float32", [0.5, -0.25])
    file.add_array("list.string", ["a", "", "Ġb"])
    file.add_array("list.bool", [True, False])
    for type in (TYPES.F32, TYPES.F16, TYPES.BF16, TYPES.Q8_0):
        values = random.normal(0, 1, (3, 64)).astype(np.float32)
        values[0, :2] = 0, 1e-3
        stored = gguf.quantize(values, type)
        file.add_tensor(f"{type.name}.weight", stored, raw_dtype=type)
        file.add_tensor(f"{type.name}.before", values)
        file.add_tensor(f"{type.name}.values", gguf.dequantize(stored, type).astype(np.float32))
    for type in (TYPES.Q4_K, TYPES.Q6_K):
        stored = blocks(type, 3, random)
        file.add_tensor(f"{type.name}.weight", stored, raw_dtype=type)
        file.add_tensor(f"{type.name}.values", gguf.dequantize(stored, type).astype(np.float32))
    file.add_tensor("odd", np.arange(5, dtype=np.float32))
    file.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


if __name__ == "__main__":
    main()
