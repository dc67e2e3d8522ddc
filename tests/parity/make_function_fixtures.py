#!/usr/bin/env python3
"""Writes functions.safetensors for the parity tests: more cases in the form of make_fixtures.py's ops.safetensors.

    python3 tests/parity/make_function_fixtures.py [output directory]
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

from make_fixtures import Cases, away_from, integers, positive, save, targets

NOTES = {
    "sin cos erf expm1 softplus log1p atan2": "as PyTorch has them; atan2 of a [3,1,5] and b [4,1]",
    "steps": "floor(x) + ceil(x) x + round(x) + sign(x), no x near a step",
    "prod_*": "x [3,5,7]; prod_1 has one 0 in some lines, two in others; prod_all: of all elements",
    "std_*": "population standard deviation",
    "argmin_* logsumexp_* cumsum_*": "the suffix names the axis, or the axes",
    "mse l1 huber bce kl nll ce": "losses of x and t, a mean; _sum, _none: PyTorch's reduction; huber: delta 0.7",
    "bce_weighted": "pos_weight w I32 [7]",
    "nll_*": "x [4,5,17] as log-probabilities, t I32 [4,5], ignore_index -1",
    "ce_*": "cross_entropy; smooth: label_smoothing 0.1, weights w I32 [17]; soft: probabilities t [4,5,17]",
}


def functions(c):
    shape = (3, 5, 7)
    c.add("sin", lambda x: torch.sin(3 * x), x=shape)
    c.add("cos", lambda x: torch.cos(3 * x), x=shape)
    for name, op in [("erf", torch.erf), ("expm1", torch.expm1), ("softplus", F.softplus)]:
        c.add(name, lambda x, op=op: op(x), x=shape)
    c.add("log1p", lambda x: torch.log1p(x), x=positive(*shape))
    c.add("atan2", lambda a, b: torch.atan2(a, b), a=(3, 1, 5), b=(4, 1))
    c.add("steps", lambda x: torch.floor(x) + torch.ceil(x) * x + torch.round(x) + torch.sign(x),
          x=away_from([k / 2 for k in range(-8, 9)], *shape))


def reductions(c):
    shape = (3, 5, 7)

    def with_zeros(g):
        x = torch.randn(shape, generator=g, dtype=torch.float64)
        x[0, 2, 3] = x[1, 0, 0] = x[1, 4, 0] = x[2, 1, 6] = 0
        return x
    c.add("prod_0", lambda x: x.prod(0), x=shape)
    c.add("prod_1", lambda x: x.prod(1), x=with_zeros)
    c.add("prod_2", lambda x: x.prod(2), x=with_zeros)
    c.add("prod_all", lambda x: x.prod(), x=positive(*shape))
    for axes in ((1,), (0, 2)):
        suffix = "".join(map(str, axes))
        c.add(f"std_{suffix}", lambda x: torch.std(x, dim=axes, correction=0), x=shape)
        c.add(f"logsumexp_{suffix}", lambda x: torch.logsumexp(x, dim=axes), x=shape)
    for axis in range(3):
        c.add(f"argmin_{axis}", lambda x: torch.argmin(x, dim=axis), x=shape)
        c.add(f"cumsum_{axis}", lambda x: torch.cumsum(x, dim=axis), x=shape)


def losses(c):
    shape, rows, w = (3, 5, 7), (4, 5, 17), integers(1, 6, 17)

    def probabilities(*shape):
        return lambda g: torch.softmax(2 * torch.randn(shape, generator=g, dtype=torch.float64), -1)

    def uniform(*shape):
        return lambda g: torch.rand(shape, generator=g, dtype=torch.float64)
    for suffix, how in (("", "mean"), ("_sum", "sum"), ("_none", "none")):
        c.add("mse" + suffix, lambda x, t: F.mse_loss(x, t, reduction=how), x=shape, t=shape)
        c.add("l1" + suffix, lambda x, t: F.l1_loss(x, t, reduction=how), x=shape, t=shape)
        c.add("huber" + suffix, lambda x, t: F.huber_loss(x, t, reduction=how, delta=0.7), x=shape, t=shape)
        c.add("bce" + suffix, lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction=how),
              x=shape, t=uniform(*shape))
        c.add("kl" + suffix, lambda x, t: F.kl_div(x, t, reduction=how), x=shape, t=probabilities(*shape))

        def flat(op, x, t, **options):
            y = op(x.flatten(0, 1), t.flatten() if t.dim() == 2 else t.flatten(0, 1), reduction=how, **options)
            return y.view(4, 5) if how == "none" else y
        c.add("nll" + suffix, lambda x, t: flat(F.nll_loss, x, t, ignore_index=-1), x=rows, t=targets(17, 4, 5))
        c.add("nll_weighted" + suffix, lambda x, t, w: flat(F.nll_loss, x, t, weight=w.double(), ignore_index=-1),
              x=rows, t=targets(17, 4, 5), w=w)
        c.add("ce" + suffix, lambda x, t: flat(F.cross_entropy, x, t, ignore_index=-1), x=rows, t=targets(17, 4, 5))
        c.add("ce_smooth" + suffix, lambda x, t: flat(F.cross_entropy, x, t, ignore_index=-1, label_smoothing=0.1),
              x=rows, t=targets(17, 4, 5))
        c.add("ce_weighted" + suffix, lambda x, t, w: flat(
            F.cross_entropy, x, t, ignore_index=-1, label_smoothing=0.1, weight=w.double()),
            x=rows, t=targets(17, 4, 5), w=w)
        c.add("ce_soft" + suffix, lambda x, t: flat(F.cross_entropy, x, t, label_smoothing=0.1),
              x=rows, t=probabilities(*rows))
    c.add("bce_weighted", lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w.double()),
          x=shape, t=uniform(*shape), w=integers(1, 6, 7))


def main():
    torch.set_num_threads(1)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "parity"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    cases = Cases()
    for part in (functions, reductions, losses):
        part(cases)
    save(directory / "functions.safetensors", cases.tensors,
         {"torch": torch.__version__, "made_by": "tests/parity/make_function_fixtures.py", **NOTES})


if __name__ == "__main__":
    main()
