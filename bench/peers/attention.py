#!/usr/bin/env python3
"""Attention beside PyTorch's scaled_dot_product_attention: forward and backward at T = 512, B = 8 and 16 heads of 64 in
float, in turns with the program of attention.cpp. Prints the best milliseconds of both, and PyTorch's over ours.

    attention.py PROGRAM [ROUNDS]
"""
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

BATCH, TIME, HEADS, DEPTH, THREADS, RUNS = 8, 512, 16, 64, 2, 4


def measure(kv_heads, lengths=None, causal=False, repeat=False):
    def leaf(heads):
        return torch.randn(BATCH, TIME, heads * DEPTH, requires_grad=True)
    q, k, v = leaf(HEADS), leaf(kv_heads), leaf(kv_heads)
    dy = torch.randn(BATCH, HEADS, TIME, DEPTH)
    mask = None if lengths is None else (torch.arange(TIME) < lengths[:, None])[:, None, None]
    best = 1e9
    for _ in range(RUNS):
        start = time.perf_counter()
        a, b, c = (x.view(BATCH, TIME, -1, DEPTH).transpose(1, 2) for x in (q, k, v))
        if repeat:
            b, c = (x.repeat_interleave(HEADS // kv_heads, 1) for x in (b, c))
        y = F.scaled_dot_product_attention(a, b, c, attn_mask=mask, is_causal=causal,
                                           enable_gqa=kv_heads != HEADS and not repeat)
        y.backward(dy)
        best = min(best, time.perf_counter() - start)
        q.grad = k.grad = v.grad = None
    return best * 1e3


def both(causal):
    """Grouped heads either way: PyTorch's own, or keys and values repeated."""
    return min(measure(4, causal=causal), measure(4, causal=causal, repeat=True))


def main():
    torch.set_num_threads(THREADS)
    lengths = torch.arange(1, BATCH + 1) * 64
    theirs = {"plain": lambda: measure(HEADS), "padded": lambda: measure(HEADS, lengths),
              "grouped": lambda: both(False), "grouped_causal": lambda: both(True)}
    ours, others = {}, {}
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
        text = subprocess.run([sys.argv[1], str(THREADS), str(RUNS)], check=True, capture_output=True, text=True).stdout
        for name, ms in (line.split() for line in text.splitlines()):
            ours[name] = min(ours.get(name, 1e9), float(ms))
            others[name] = min(others.get(name, 1e9), theirs[name]())
    for name in ours:
        print(f"{name:16s} {ours[name]:8.1f} ms  PyTorch {others[name]:8.1f} ms  {others[name] / ours[name]:.2f}x")


if __name__ == "__main__":
    main()
