#!/usr/bin/env python3
"""One PyTorch GPT training run, timed: the yardstick that gradus is held against.

A GPT-2 style network (learned positions, pre-norm blocks, tanh GELU, head tied to the token embedding, no dropout) is
trained with fused AdamW for a few steps on random tokens. The result is one line of JSON on standard output:

  tok_s               tokens a second, from the median step
  step_ms             the median step
  peak_mib            the most memory that this process ever held (VmHWM; with --device cuda, that it held on the GPU)
  peak_over_base_mib  the same, less what it held just before the model was made
  params, loss, threads, torch, and the flags

With --gemm nothing is trained: the matrix products of the model's own linear layers, forward and both gradients, are
timed bare, and `gemm_gflops` is their combined rate.
"""
import argparse
import contextlib
import dataclasses
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int
    batch: int


SIZES = {
    "nano": Size(6, 384, 6, 256, 256, 12),
    "seed": Size(4, 256, 4, 512, 50304, 8),
    "gpt2-64": Size(12, 768, 12, 64, 50304, 4),
    "gpt2-256": Size(12, 768, 12, 256, 50304, 8),
    "gpt2-1024": Size(12, 768, 12, 1024, 50304, 16),  # for a GPU
}
REAL_TOKENS = 50257  # the larger vocabularies are padded from this


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wte = nn.Embedding(size.vocabulary, size.width)
        self.wpe = nn.Embedding(size.context, size.width)
        self.h = nn.ModuleList(Block(size.width, size.heads) for _ in range(size.layers))
        self.ln_f = nn.LayerNorm(size.width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * size.layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.size(1)]
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def status_mib(key):
    """A memory figure of this process, such as VmHWM or VmRSS, in MiB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


def time_training(o, size):
    torch.manual_seed(1)
    cuda = o.device == "cuda"
    base = 0.0 if cuda else status_mib("VmRSS")
    model = GPT(size).to(o.device, torch.bfloat16 if o.precision == "bf16_pure" else torch.float32)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    if o.max_autotune:
        run = torch.compile(model, mode="max-autotune")
    else:
        run = torch.compile(model) if o.compile else model
    upper = min(size.vocabulary, REAL_TOKENS)
    text = torch.randint(0, upper, (o.batch, size.context + 1), device=o.device)
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def step():
        if o.precision == "bf16_mixed":
            lower = torch.autocast(o.device, dtype=torch.bfloat16)
        else:
            lower = contextlib.nullcontext()
        with lower:
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    times = []
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if o.attention == "cudnn" else contextlib.nullcontext():
        for _ in range(o.warmup):
            step()
        for _ in range(o.steps):
            begin = time.perf_counter()
            loss = step()
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else status_mib("VmHWM")
    return {"tok_s": round(o.batch * size.context / median, 1), "step_ms": round(median * 1e3, 2),
            "peak_mib": round(peak), "peak_over_base_mib": round(peak - base),
            "params": sum(p.numel() for p in model.parameters()), "loss": round(loss, 5)}


def time_gemm(o, size):
    rows, c = o.batch * size.context, size.width
    layers = [(c, 3 * c, size.layers), (c, c, size.layers), (c, 4 * c, size.layers), (4 * c, c, size.layers),
              (c, size.vocabulary, 1)]  # columns in, columns out, how many of them
    dtype = torch.float32 if o.precision == "fp32" else torch.bfloat16

    def seconds(a, b):
        out = a @ b
        tries = []
        while len(tries) < 3 or (sum(tries) < 0.3 and len(tries) < 50):
            begin = time.perf_counter()
            torch.mm(a, b, out=out)
            tries.append(time.perf_counter() - begin)
        return statistics.median(tries)

    flops = spent = 0.0
    for inner, outer, count in layers:
        x, w, dy = (torch.randn(shape).to(dtype) for shape in ((rows, inner), (outer, inner), (rows, outer)))
        spent += count * (seconds(x, w.t()) + seconds(dy, w) + seconds(dy.t(), x))
        flops += count * 3 * 2 * rows * inner * outer
    return {"gemm_gflops": round(flops / spent / 1e9, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SIZES, default="nano")
    parser.add_argument("--batch", type=int, default=0, help="sequences a step (default: the model's own)")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16_mixed", "bf16_pure"), default="fp32",
                        help="bf16_mixed: autocast; bf16_pure: parameters too")
    parser.add_argument("--compile", action="store_true", help="run the model through torch.compile")
    parser.add_argument("--max-autotune", action="store_true", help="torch.compile in its max-autotune mode")
    parser.add_argument("--attention", choices=("any", "cudnn"), default="any", help="cudnn: cuDNN's, or an error")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gemm", action="store_true", help="time only the bare matrix products")
    o = parser.parse_args()
    if o.steps < 1 or o.warmup < 0 or o.threads < 1 or o.batch < 0:
        parser.error("steps and threads must be positive, warmup and batch not negative")
    if o.device == "cuda" and (o.gemm or not torch.cuda.is_available()):
        parser.error("--device cuda needs a GPU, and does not do --gemm")
    size = SIZES[o.model]
    o.batch = o.batch or size.batch
    torch.set_num_threads(o.threads)
    result = time_gemm(o, size) if o.gemm else time_training(o, size)
    print(json.dumps({**result, "model": o.model, "batch": o.batch, "steps": o.steps, "precision": o.precision,
                      "compile": o.compile or o.max_autotune, "max_autotune": o.max_autotune, "attention": o.attention,
                      "device": o.device, "threads": o.threads, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
