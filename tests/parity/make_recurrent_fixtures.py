#!/usr/bin/env python3
"""Writes tests/data/parity/recurrent.safetensors: losses and gradients of models with PyTorch's LSTM and GRU, in double.

    python3 make_recurrent_fixtures.py  # needs torch

Weights are [in, out], as the library has them, and the two biases of an LSTM are their sum.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from make_fixtures import save

BATCH, TIME, IN, HIDDEN, CLASSES = 3, 5, 6, 7, 4
GENERATOR = torch.Generator().manual_seed(36)


def normal(*shape):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


def drawn(module):
    """The module in double, with weights that saturate no gate and leave none linear."""
    module = module.double()
    for p in module.parameters():
        p.data = normal(*p.shape) * 0.5
    return module


def put_layer(tensors, name, module, suffix, sums_biases):
    """Parameters and their gradients, once they are computed."""
    for part in ("ih", "hh"):
        w = getattr(module, f"weight_{part}_{suffix}")
        tensors[f"{name}.{part}"], tensors[f"{name}.d{part}"] = w.data.T, w.grad.T
    b, c = getattr(module, f"bias_ih_{suffix}"), getattr(module, f"bias_hh_{suffix}")
    if sums_biases:
        tensors[f"{name}.b"], tensors[f"{name}.db"] = b.data + c.data, b.grad
    else:
        tensors.update({f"{name}.b": b.data, f"{name}.db": b.grad, f"{name}.c": c.data, f"{name}.dc": c.grad})


def classifier(tensors, kind, layers):
    """A loss of `layers` layers from states to a linear layer, of all steps and the last state."""
    name, is_lstm = kind.__name__.lower(), kind is torch.nn.LSTM
    net = drawn(kind(IN, HIDDEN, layers, batch_first=True))
    head = drawn(torch.nn.Linear(HIDDEN, CLASSES))
    x, h, c = normal(BATCH, TIME, IN), normal(layers, BATCH, HIDDEN), normal(layers, BATCH, HIDDEN)
    targets = torch.randint(0, CLASSES, (BATCH, TIME), generator=GENERATOR)
    leaves = [v.clone().requires_grad_() for v in ((x, h, c) if is_lstm else (x, h))]
    y, last = net(leaves[0], tuple(leaves[1:]) if is_lstm else leaves[1])
    loss = F.cross_entropy(head(y).flatten(0, 1), targets.flatten())
    loss = loss + (last[0] * last[1]).mean() if is_lstm else loss + (last * last).mean()
    loss.backward()
    for n, v in zip(("x", "h", "c"), leaves):
        tensors[f"{name}.{n}"], tensors[f"{name}.d{n}"] = v.data, v.grad
    for i in range(layers):
        put_layer(tensors, f"{name}.{i}", net, f"l{i}", is_lstm)
    tensors.update({f"{name}.targets": targets.int(), f"{name}.loss": loss.data,
                    f"{name}.head.w": head.weight.data.T, f"{name}.head.dw": head.weight.grad.T,
                    f"{name}.head.b": head.bias.data, f"{name}.head.db": head.bias.grad})


def bidirectional(tensors):
    """Both directions of rows of different lengths; outputs after a row's end do not count."""
    net = drawn(torch.nn.LSTM(IN, HIDDEN, batch_first=True, bidirectional=True))
    lengths = torch.tensor([3, 5, 1], dtype=torch.int32)
    x = normal(BATCH, TIME, IN).requires_grad_()
    packed = pack_padded_sequence(x, lengths.long(), batch_first=True, enforce_sorted=False)
    y, _ = pad_packed_sequence(net(packed)[0], batch_first=True)
    dy = normal(BATCH, TIME, 2 * HIDDEN) * (torch.arange(TIME) < lengths[:, None])[..., None]
    (y * dy).sum().backward()
    tensors.update({"both.x": x.data, "both.dx": x.grad, "both.lengths": lengths, "both.dy": dy, "both.y": y.data})
    put_layer(tensors, "both.forward", net, "l0", True)
    put_layer(tensors, "both.reverse", net, "l0_reverse", True)


if __name__ == "__main__":
    tensors = {}
    classifier(tensors, torch.nn.LSTM, 2)
    classifier(tensors, torch.nn.GRU, 1)
    bidirectional(tensors)
    save(Path(__file__).resolve().parent.parent / "data" / "parity" / "recurrent.safetensors", tensors,
         {"torch": torch.__version__, "script": "tests/parity/make_recurrent_fixtures.py"})
