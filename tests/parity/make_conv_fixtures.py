#!/usr/bin/env python3
"""Writes tests/data/parity/convolutions.safetensors: convolutions with every option, as make_fixtures.py writes its
cases.

    python3 tests/parity/make_conv_fixtures.py [output directory]
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

from make_fixtures import Cases, save


def main():
    torch.set_num_threads(1)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "parity"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    c = Cases()
    c.add("conv2d", lambda x, w, b: F.conv2d(x, w, b), x=(2, 3, 5, 7), w=(4, 3, 3, 2), b=(4,))
    c.add("conv2d_padded", lambda x, w, b: F.conv2d(x, w, b, padding=1), x=(2, 3, 4, 6), w=(5, 3, 3, 3), b=(5,))
    c.add("conv2d_all", lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), padding=(3, 1), dilation=(2, 1), groups=2),
          x=(2, 4, 7, 8), w=(6, 2, 3, 2), b=(6,))
    c.add("conv2d_depthwise", lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=4), x=(2, 4, 6, 5),
          w=(8, 1, 3, 3))
    c.add("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=2, dilation=3, groups=3), x=(2, 6, 17),
          w=(3, 2, 4), b=(3,))
    c.add("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b), x=(2, 3, 4, 5), w=(3, 4, 2, 3), b=(4,))
    c.add("conv_transpose2d_all", lambda x, w, b: F.conv_transpose2d(
        x, w, b, stride=(3, 2), padding=(1, 2), output_padding=(2, 1), groups=2, dilation=(1, 3)),
        x=(2, 4, 3, 4), w=(4, 3, 4, 2), b=(6,))
    save(directory / "convolutions.safetensors", c.tensors,
         {"torch": torch.__version__, "made_by": "tests/parity/make_conv_fixtures.py"})


if __name__ == "__main__":
    main()
