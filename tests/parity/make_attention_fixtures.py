#!/usr/bin/env python3
"""Writes tests/data/parity/attention.safetensors: attention with every option and pair of options by PyTorch's
scaled_dot_product_attention, and rotary embeddings by the formula of Hugging Face's transformers, in double.

    python3 make_attention_fixtures.py  # needs torch
"""
import itertools
import math
from pathlib import Path

import torch
import torch.nn.functional as F

from make_fixtures import Cases, save

BATCH, HEADS, KV_HEADS, QUERIES, KEYS, DEPTH = 2, 4, 2, 5, 7, 3
OPTIONS = ["causal", "scale", "key_lengths", "mask", "window", "bias"]
WINDOW, SCALE = 3, 0.7


def attend(q, k, v, bias, lengths, mask, options):
    """[B, T, H*D] operands, as the library has them."""
    def heads(x, count):
        return x.reshape(BATCH, -1, count, DEPTH).transpose(1, 2)
    distance = torch.arange(KEYS)[None] - (torch.arange(QUERIES)[:, None] + KEYS - QUERIES)
    seen = torch.ones(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    if "causal" in options:
        seen = seen & (distance <= 0)
    if "window" in options:
        seen = seen & (distance.abs() < WINDOW)
    if "key_lengths" in options:
        seen = seen & (torch.arange(KEYS) < lengths[:, None])[:, None, None]
    if "mask" in options:
        seen = seen & mask.bool()[:, None, None]
    added = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)
    if "bias" in options:
        added = added + bias
    y = F.scaled_dot_product_attention(heads(q, HEADS), heads(k, KV_HEADS), heads(v, KV_HEADS), attn_mask=added,
                                       scale=SCALE if "scale" in options else None, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def attention(tensors):
    g = torch.Generator().manual_seed(35)
    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)
    leaves = {"q": normal(BATCH, QUERIES, HEADS * DEPTH), "k": normal(BATCH, KEYS, KV_HEADS * DEPTH),
              "v": normal(BATCH, KEYS, KV_HEADS * DEPTH), "bias": normal(1, HEADS, QUERIES, KEYS)}
    dy = normal(BATCH, QUERIES, HEADS * DEPTH)
    lengths = torch.tensor([4, 6], dtype=torch.int32)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 0, 1, 1, 0]], dtype=torch.int32)
    tensors.update(leaves, dy=dy, lengths=lengths, mask=mask)
    for first, second in itertools.combinations_with_replacement(OPTIONS, 2):
        operands = {name: x.clone().requires_grad_() for name, x in leaves.items()}
        y = attend(**operands, lengths=lengths, mask=mask, options={first, second})
        wanted = [n for n in operands if n != "bias" or "bias" in (first, second)]
        gradients = torch.autograd.grad(y, [operands[n] for n in wanted], dy)
        name = f"{first}.{second}"
        tensors[f"{name}.y"] = y
        for n, gradient in zip(wanted, gradients):
            assert not gradient.isnan().any()
            tensors[f"{name}.d{n}"] = gradient


def frequencies(depth, base, scaling):
    """transformers' default and llama3 rope parameters."""
    inverse = 1.0 / (base ** (torch.arange(0, depth, 2, dtype=torch.float64) / depth))
    if scaling is None:
        return inverse
    wave = 2 * math.pi / inverse
    low, high, old = scaling["low"], scaling["high"], scaling["context"]
    scaled = torch.where(wave > old / low, inverse / scaling["factor"], inverse)
    smooth = (old / wave - low) / (high - low)
    between = (wave >= old / high) & (wave <= old / low)
    return torch.where(between, (1 - smooth) * scaled / scaling["factor"] + smooth * scaled, scaled)


def rotate(x, heads, base, position, pairs, scaling=None):
    batch, time, width = x.shape
    x = x.reshape(batch, time, heads, width // heads)
    angles = (torch.arange(time, dtype=torch.float64) + position)[:, None] * frequencies(x.shape[-1], base, scaling)
    angles = angles.repeat_interleave(2, -1) if pairs else torch.cat([angles, angles], -1)
    if pairs:
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    else:
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * angles.cos()[:, None] + turned * angles.sin()[:, None]).reshape(batch, time, width)


def main():
    c = Cases()
    c.add("rope_halves", lambda x: rotate(x, 3, 10000.0, 0, False), x=(2, 5, 18))
    c.add("rope_pairs", lambda x: rotate(x, 3, 100.0, 7, True), x=(2, 5, 18))
    llama = {"factor": 8.0, "low": 1.0, "high": 4.0, "context": 8192}
    c.add("rope_llama3", lambda x: rotate(x, 1, 500000.0, 9000, False, llama), x=(1, 3, 16))
    attention(c.tensors)
    save(Path(__file__).resolve().parent.parent / "data" / "parity" / "attention.safetensors", c.tensors,
         {"torch": torch.__version__, "script": "tests/parity/make_attention_fixtures.py"})


if __name__ == "__main__":
    main()
