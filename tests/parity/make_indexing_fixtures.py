#!/usr/bin/env python3
"""Writes tests/data/parity/indexing.safetensors: cases of operations that move or select elements, as make_fixtures.py
writes its own.

    python3 tests/parity/make_indexing_fixtures.py [output directory]
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

from make_fixtures import Cases, integers, save


def layout(c):
    c.add("stack", lambda a, b: torch.stack([a, b, a], 1), a=(2, 3, 5), b=(2, 3, 5))
    c.add("pad", lambda x: F.pad(x, (0, 0, 2, 1), value=1.5), x=(2, 3, 5))
    c.add("roll", lambda x: x.roll(-2, 1), x=(2, 7, 3))
    c.add("expand", lambda x: x.expand(4, 3, 5, 2), x=(3, 1, 2))
    c.add("tril", lambda x: x.tril(1), x=(2, 5, 7))
    c.add("triu", lambda x: x.triu(-2), x=(2, 5, 7))


def products(c):
    for name, text, a, b in [("matmul", "bij,bjk->bik", (2, 3, 5), (2, 5, 4)),
                             ("permuted", "ibj,kjb->bki", (3, 2, 5), (4, 5, 2)),
                             ("two_sums", "bijk,kjl->lib", (2, 3, 5, 4), (4, 5, 7)),
                             ("alone", "ijk,jl->il", (3, 5, 4), (5, 7)),
                             ("outer", "bi,k->kib", (2, 3), (5,)),
                             ("dot", "bij,bji->b", (2, 3, 5), (2, 5, 3))]:
        c.add("einsum_" + name, lambda a, b, text=text: torch.einsum(text, a, b), a=a, b=b)
    c.add("einsum_one", lambda a: torch.einsum("ijk->ki", a), a=(2, 3, 5))


def indices(c):
    c.add("gather", lambda x, at: torch.gather(x, 1, at.long()), x=(3, 5, 7), at=integers(0, 5, 3, 11, 7))
    c.add("index_select", lambda x, at: x.index_select(1, at), x=(3, 5, 7), at=integers(0, 5, 9))
    c.add("scatter_add", lambda x, at, v: x.scatter_add(1, at.long(), v), x=(3, 5, 7), at=integers(0, 5, 3, 11, 7),
          v=(3, 11, 7))
    c.add("one_hot", lambda at: F.one_hot(at.long(), 6), at=integers(0, 6, 3, 5))
    c.add("sort", lambda x: torch.sort(x, stable=True, dim=-1)[0], x=(3, 5, 11))
    c.add("argsort", lambda x: torch.argsort(x, stable=True, dim=-1), x=integers(0, 4, 3, 19))
    c.add("argsort_descending", lambda x: torch.argsort(x, stable=True, dim=-1, descending=True),
          x=integers(0, 4, 3, 19))
    c.add("topk", lambda x: tuple(x.topk(4)), x=(3, 5, 11))


def main():
    torch.set_num_threads(1)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "parity"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    cases = Cases()
    for part in (layout, products, indices):
        part(cases)
    save(directory / "indexing.safetensors", cases.tensors,
         {"torch": torch.__version__, "made_by": "tests/parity/make_indexing_fixtures.py",
          "contents": "cases as in ops.safetensors; topk: y0 values, y1 indices"})


if __name__ == "__main__":
    main()
