#!/usr/bin/env python3
"""Writes the numbers that the parity tests compare gradus against, computed by PyTorch.

    python3 tests/parity/make_fixtures.py [output directory]

Files in the safetensors format come out, the same on every run with the same PyTorch:

ops.safetensors   One case an op, in float64, as <case>.<part>. Inputs have the op's usual letters (x, a, b, w, ...), y
                  is the output, dy the gradient that arrives at it, and d<input> what the op's gradient rule must
                  return. A case with several outputs numbers them: y0, y1, dy0, dy1. Integer inputs and outputs are
                  I32.
gpt.safetensors   A small GPT-2: parameters, first loss and gradients, twenty steps of AdamW.
gpt_autocast.safetensors
                  The first loss and gradients of the same GPT-2 under torch.autocast in bfloat16 and float16.
optimizers.safetensors
                  Fifty steps of each optimizer on a few tensors of odd shapes, and a run of PyTorch's GradScaler.
                  Hugging Face's transformers and bitsandbytes must be there for its Adafactor and 8-bit AdamW.

What an op means exactly (constants, conventions) is in the files' own __metadata__, written from NOTES below.
"""
import json
import math
import pathlib
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

NOTES = {
    "add sub mul div minimum maximum": "a [3,1,5] with b [4,1], broadcast to [3,4,5]",
    "rsqrt": "1/sqrt(x)",
    "gelu_tanh": "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    "gelu_erf": "0.5 x (1 + erf(x / sqrt 2))",
    "silu": "x sigmoid(x)",
    "pow": "x^2.5 for x > 0; pow_int: x^3; pow_tensor: a^b, both differentiable, a > 0",
    "abs relu clamp minimum maximum": "no input lies on a kink, no two are equal",
    "clamp": "to [-0.5, 0.75]",
    "where": "cond (I32, 0 or 1) ? a : b",
    "sum_* mean_* max_* min_* argmax_*":
        "x [3,5,7]; the suffix names the axes reduced, as in sum_02; _all: every axis; "
        "_keep: reduced axes stay as 1; argmax: first index of the largest, I32",
    "var_*": "population variance: divided by the count",
    "var_unbiased_*": "divided by the count less one",
    "matmul": "a [5,7] b [7,3]; _batched [2,3,5,7] [2,3,7,4]; _tn: a^T b with a [7,5]; _nt: a b^T with b [3,7]; "
              "_batched_tn, _batched_nt likewise on the last two axes; _broadcast: a [2,3,5,7] with one b [7,4]",
    "linear": "y = x w + b with x [2,5,7], w [in=7, out=3], b [3]; linear_nobias: no b",
    "softmax log_softmax": "over the last axis of x [3,5,11]; _large: x has entries near +-700",
    "layer_norm": "(x - mean) / sqrt(var + 1e-5) * w + b over the last axis of x [3,5,13], population variance",
    "rms_norm": "x / sqrt(mean(x^2) + 1e-5) * w over the last axis of x [3,5,13]",
    "embedding": "rows of w [11,5] by tokens I32 [3,4], with repeats; dw sums over repeats",
    "attention": "causal; qkv [2,13,45] packed as q, k, v, each 3*5 wide, head h at columns 5h..5h+4 of each; "
                 "y [2,13,15]; scores scaled by 1/sqrt(5). attention_full: the same without the causal mask",
    "cross_entropy": "logits [4,5,17], targets I32 [4,5]; mean over targets that are not -1; y is a scalar, shape []",
    "cross_entropy_padded":
        "logits [3,5,64] of which the first 61 are real: the other 3 are left out of the softmax and have gradient 0",
    "permute": "y[i,j,k] = x[k,i,j]: axes (1,2,0) of x [2,3,5] -> [3,5,2]; transpose: x [3,5] -> [5,3]",
    "slice": "x [5,7,3], second axis from 2 to 6 -> [5,4,3]",
    "concat": "a [2,3,5], b [2,4,5] along the second axis -> [2,7,5]",
    "split": "x [2,9,5] along the second axis into sizes 2, 3, 4: y0, y1, y2",
}


def save(path, tensors, metadata):
    """Writes a safetensors file: header length, JSON header padded to 8 bytes, contiguous little-endian data."""
    names = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64", torch.int32: "I32"}
    header, chunks, end = {"__metadata__": metadata}, [], 0
    # Wide types first, so that every tensor starts at a multiple of its own element size.
    for key in sorted(tensors, key=lambda k: (-tensors[k].element_size(), k)):
        t = tensors[key].detach().contiguous()
        data = t.numpy().astype(t.numpy().dtype.newbyteorder("<")).tobytes()
        header[key] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [end, end + len(data)]}
        chunks.append(data)
        end += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


class Cases:
    """Collects the cases of ops.safetensors. Each case draws from its own seed, so that adding one moves no other."""

    def __init__(self):
        self.tensors = {}

    def _generator(self, case):
        seed = 2166136261
        for byte in case.encode():
            seed = (seed ^ byte) * 16777619 % 2**32
        return torch.Generator().manual_seed(seed)

    def add(self, name, op, **inputs):
        """Runs `op` on the inputs: a shape draws normal values, a callable is given the generator, a tensor is
        taken."""
        if name + ".y" in self.tensors or name + ".y0" in self.tensors:
            raise ValueError(f"two cases are named {name}")
        g = self._generator(name)
        values = {}
        for key, how in inputs.items():
            if isinstance(how, tuple):
                how = torch.randn(how, generator=g, dtype=torch.float64)
            elif callable(how):
                how = how(g)
            self.tensors[f"{name}.{key}"] = how.to(torch.int32) if not how.is_floating_point() else how
            values[key] = how.clone().requires_grad_(how.is_floating_point())
        result = op(**values)
        several = isinstance(result, (tuple, list))
        outputs, grads = list(result) if several else [result], []
        for i, y in enumerate(outputs):
            suffix = str(i) if several else ""
            if not y.is_floating_point():
                self.tensors[f"{name}.y{suffix}"] = y.to(torch.int32)
                continue
            dy = torch.randn(y.shape, generator=g, dtype=torch.float64)
            self.tensors[f"{name}.y{suffix}"], self.tensors[f"{name}.dy{suffix}"] = y, dy
            grads.append((y, dy))
        leaves = {k: v for k, v in values.items() if v.requires_grad}
        if grads and leaves:
            found = torch.autograd.grad([y for y, _ in grads], list(leaves.values()), [d for _, d in grads])
            for key, gradient in zip(leaves, found):
                self.tensors[f"{name}.d{key}"] = gradient


def positive(*shape):
    return lambda g: 0.3 + 2.0 * torch.rand(shape, generator=g, dtype=torch.float64)


def away_from(kinks, *shape):
    """Normal values, none closer than 0.02 to a kink, so that the gradient is beyond doubt."""
    def draw(g):
        x = torch.randn(shape, generator=g, dtype=torch.float64)
        for k in kinks:
            x = torch.where((x - k).abs() < 0.02, torch.full_like(x, k + 0.05), x)
        return x
    return draw


def integers(low, high, *shape):
    return lambda g: torch.randint(low, high, shape, generator=g)


def targets(high, *shape):
    """Targets of which some, the first among them, are -1."""
    def draw(g):
        t = torch.randint(0, high, shape, generator=g)
        flat = t.view(-1)
        flat[0] = flat[4] = flat[7] = -1
        return t
    return draw


def attend(qkv, heads, causal):
    batch, length, packed = qkv.shape
    depth = packed // (3 * heads)
    q, k, v = (part.view(batch, length, heads, depth).transpose(1, 2) for part in qkv.split(heads * depth, dim=-1))
    scores = q @ k.transpose(-2, -1) / math.sqrt(depth)
    if causal:
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * depth)


def elementwise(c):
    a, b, shape = (3, 1, 5), (4, 1), (3, 5, 7)
    c.add("add", lambda a, b: a + b, a=a, b=b)
    c.add("sub", lambda a, b: a - b, a=a, b=b)
    c.add("mul", lambda a, b: a * b, a=a, b=b)
    c.add("div", lambda a, b: a / b, a=a, b=positive(*b))
    c.add("minimum", lambda a, b: torch.minimum(a, b), a=a, b=b)
    c.add("maximum", lambda a, b: torch.maximum(a, b), a=a, b=b)
    for name, op in [("neg", torch.neg), ("exp", torch.exp), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid),
                     ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("gelu_erf", F.gelu), ("silu", F.silu)]:
        c.add(name, lambda x, op=op: op(x), x=shape)
    for name, op in [("log", torch.log), ("sqrt", torch.sqrt), ("rsqrt", torch.rsqrt), ("pow", lambda x: x**2.5)]:
        c.add(name, lambda x, op=op: op(x), x=positive(*shape))
    c.add("pow_int", lambda x: x**3, x=shape)
    c.add("pow_tensor", lambda a, b: a**b, a=positive(*shape), b=shape)
    c.add("relu", lambda x: torch.relu(x), x=away_from([0.0], *shape))
    c.add("abs", lambda x: x.abs(), x=away_from([0.0], *shape))
    c.add("clamp", lambda x: x.clamp(-0.5, 0.75), x=away_from([-0.5, 0.75], *shape))
    c.add("where", lambda cond, a, b: torch.where(cond != 0, a, b), cond=integers(0, 2, *shape), a=shape, b=shape)


def reductions(c):
    shape = (3, 5, 7)
    for axes in ((0,), (1,), (2,), (0, 2)):
        suffix = "".join(map(str, axes))
        for name, op in [("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin)]:
            c.add(f"{name}_{suffix}", lambda x, op=op: op(x, dim=axes), x=shape)
        c.add(f"var_{suffix}", lambda x: torch.var(x, dim=axes, correction=0), x=shape)
        c.add(f"var_unbiased_{suffix}", lambda x: torch.var(x, dim=axes, correction=1), x=shape)
        if len(axes) == 1:
            c.add(f"argmax_{suffix}", lambda x: torch.argmax(x, dim=axes[0]), x=shape)
    c.add("sum_1_keep", lambda x: x.sum(1, keepdim=True), x=shape)
    c.add("mean_2_keep", lambda x: x.mean(2, keepdim=True), x=shape)
    c.add("sum_all", lambda x: x.sum(), x=shape)
    c.add("mean_all", lambda x: x.mean(), x=shape)
    c.add("max_all", lambda x: x.max(), x=shape)
    c.add("var_all", lambda x: x.var(correction=0), x=shape)


def products(c):
    def nn(a, b): return a @ b
    def tn(a, b): return a.transpose(-2, -1) @ b
    def nt(a, b): return a @ b.transpose(-2, -1)
    c.add("matmul", nn, a=(5, 7), b=(7, 3))
    c.add("matmul_tn", tn, a=(7, 5), b=(7, 3))
    c.add("matmul_nt", nt, a=(5, 7), b=(3, 7))
    c.add("matmul_batched", nn, a=(2, 3, 5, 7), b=(2, 3, 7, 4))
    c.add("matmul_batched_tn", tn, a=(2, 3, 7, 5), b=(2, 3, 7, 4))
    c.add("matmul_batched_nt", nt, a=(2, 3, 5, 7), b=(2, 3, 4, 7))
    c.add("matmul_broadcast", nn, a=(2, 3, 5, 7), b=(7, 4))
    c.add("linear", lambda x, w, b: x @ w + b, x=(2, 5, 7), w=(7, 3), b=(3,))
    c.add("linear_nobias", lambda x, w: x @ w, x=(2, 5, 7), w=(7, 3))


def network(c):
    def large(g):
        x = torch.randn(3, 5, 11, generator=g, dtype=torch.float64)
        x[0, 0] += 700.0
        x[1, 2] -= 700.0
        x[2, 4, 3] = 700.0
        return x
    for name, op in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax)]:
        c.add(name, lambda x, op=op: op(x, -1), x=(3, 5, 11))
        c.add(name + "_large", lambda x, op=op: op(x, -1), x=large)
    c.add("layer_norm", lambda x, w, b: F.layer_norm(x, (13,), w, b, 1e-5), x=(3, 5, 13), w=(13,), b=(13,))
    c.add("rms_norm", lambda x, w: x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w, x=(3, 5, 13), w=(13,))
    c.add("embedding", lambda tokens, w: F.embedding(tokens, w),
          tokens=torch.tensor([[1, 4, 4, 10], [0, 1, 1, 7], [10, 4, 2, 0]]), w=(11, 5))
    c.add("attention", lambda qkv: attend(qkv, 3, True), qkv=(2, 13, 45))
    c.add("attention_full", lambda qkv: attend(qkv, 3, False), qkv=(2, 13, 45))
    c.add("cross_entropy",
          lambda logits, targets: F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1),
          logits=(4, 5, 17), targets=targets(17, 4, 5))
    c.add("cross_entropy_padded", lambda logits, targets: F.cross_entropy(
        logits[..., :61].flatten(0, 1), targets.flatten(), ignore_index=-1),
        logits=(3, 5, 64), targets=targets(61, 3, 5))


def movement(c):
    c.add("permute", lambda x: x.permute(1, 2, 0), x=(2, 3, 5))
    c.add("transpose", lambda x: x.t(), x=(3, 5))
    c.add("slice", lambda x: x[:, 2:6], x=(5, 7, 3))
    c.add("concat", lambda a, b: torch.cat([a, b], 1), a=(2, 3, 5), b=(2, 4, 5))
    c.add("split", lambda x: x.split([2, 3, 4], 1), x=(2, 9, 5))


LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH, STEPS = 2, 3, 39, 13, 61, 3, 20
WARMUP, BASE_LR, MIN_LR, DECAY, CLIP = 5, 3e-3, 3e-4, 0.1, 1.0


def gpt_parameters(g):
    """Parameters far from a usual start: biases and gains are random too, so that no gradient is near zero."""
    def normal(*shape, scale, shift=0.0):
        return shift + scale * torch.randn(shape, generator=g, dtype=torch.float64)
    p = {"wte.weight": normal(VOCABULARY, WIDTH, scale=0.3), "wpe.weight": normal(CONTEXT, WIDTH, scale=0.3)}
    norms = [f"h.{n}.ln_{i}" for n in range(LAYERS) for i in (1, 2)] + ["ln_f"]
    linears = {f"h.{n}.{name}": shape for n in range(LAYERS) for name, shape in {
        "attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH),
        "mlp.c_fc": (WIDTH, 4 * WIDTH), "mlp.c_proj": (4 * WIDTH, WIDTH)}.items()}
    for name in norms:
        p[name + ".weight"] = normal(WIDTH, scale=0.2, shift=1.0)
        p[name + ".bias"] = normal(WIDTH, scale=0.2)
    for name, (rows, columns) in linears.items():
        p[name + ".weight"] = normal(rows, columns, scale=1.0 / math.sqrt(rows))
        p[name + ".bias"] = normal(columns, scale=0.2)
    return p


def gpt_loss(p, tokens, targets):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(x, name):
        if torch.is_autocast_enabled("cpu"):  # one operation, whose bias is cast too
            return F.linear(x, p[name + ".weight"].t(), p[name + ".bias"])
        return x @ p[name + ".weight"] + p[name + ".bias"]

    x = p["wte.weight"][tokens] + p["wpe.weight"]
    for n in range(LAYERS):
        block = f"h.{n}."
        attended = attend(linear(norm(x, block + "ln_1"), block + "attn.c_attn"), HEADS, True)
        x = x + linear(attended, block + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, block + "ln_2"), block + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, block + "mlp.c_proj")
    logits = norm(x, "ln_f") @ p["wte.weight"].t()
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def learning_rate(t):
    if t < WARMUP:
        return BASE_LR * (t + 1) / WARMUP
    progress = (t - WARMUP) / (STEPS - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * progress)) * (BASE_LR - MIN_LR)


def gpt_data():
    g = torch.Generator().manual_seed(1234)
    start = gpt_parameters(g)
    # A text with something to learn: each token follows from the one before, but for one in four.
    follow = torch.randperm(VOCABULARY, generator=g)
    text = torch.randint(0, VOCABULARY, (STEPS, BATCH, CONTEXT + 1), generator=g)
    for i in range(1, CONTEXT + 1):
        noise = torch.rand(STEPS, BATCH, generator=g) < 0.25
        text[..., i] = torch.where(noise, text[..., i], follow[text[..., i - 1]])
    return start, text[..., :-1].contiguous(), text[..., 1:].contiguous()


def gpt_autocast():
    start, tokens, goals = gpt_data()
    out = {}
    for dtype, tag in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        p = {name: value.float().clone().requires_grad_() for name, value in start.items()}
        with torch.autocast("cpu", dtype=dtype):
            loss = gpt_loss(p, tokens[0], goals[0])
        loss.backward()
        out["loss." + tag] = loss.detach()
        out.update({f"grad.{tag}.{name}": v.grad for name, v in p.items()})
    return out


def gpt():
    start, tokens, goals = gpt_data()
    out = {"tokens": tokens.to(torch.int32), "targets": goals.to(torch.int32),
           "lr": torch.tensor([learning_rate(t) for t in range(STEPS)], dtype=torch.float64)}
    out.update({"param." + name: p for name, p in start.items()})
    for dtype, tag in ((torch.float64, "f64"), (torch.float32, "f32")):
        p = {name: value.to(dtype).clone().requires_grad_() for name, value in start.items()}
        optimizer = torch.optim.AdamW(
            [{"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": DECAY},
             {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}],
            betas=(0.9, 0.95), eps=1e-8, foreach=False)
        curve, norms = [], []
        for t in range(STEPS):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(t)
            optimizer.zero_grad(set_to_none=True)
            loss = gpt_loss(p, tokens[t], goals[t])
            loss.backward()
            if t == 0:
                out["loss." + tag] = loss.detach().clone()
                out.update({f"grad.{tag}.{name}": v.grad.clone() for name, v in p.items()})
            curve.append(loss.item())
            norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP).item())
            optimizer.step()
        out["curve." + tag] = torch.tensor(curve, dtype=dtype)
        out["norm." + tag] = torch.tensor(norms, dtype=dtype)
        if tag == "f64":
            out.update({f"final.f64.{name}": v.detach() for name, v in p.items()})
    return out


# Of the optimizers: one tensor is large enough for states of 8 bits, and its last block of 256 is short.
OPTIMIZED = {"w": (7, 13), "b": (13,), "tall": (29, 6), "large": (67, 63)}
OPTIMIZER_STEPS = 50


def hashed(shape, round_, tensor):
    """Numbers in [-0.5, 0.5) that any language can make again: a hash of the element, the tensor and the round."""
    n = math.prod(shape)
    x = np.arange(n, dtype=np.uint64) + np.uint64(100003 * tensor + 1000003 * round_ + 12345)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    values = (x >> np.uint64(8)).astype(np.float32) * np.float32(2**-24) - np.float32(0.5)
    return torch.from_numpy(values.reshape(shape))


def gradient(shape, step, tensor):
    """Mostly noise, with a mean that the states see: as a hash, less a tenth."""
    return hashed(shape, step, tensor) - np.float32(0.1)


def optimize(make, steps=OPTIMIZER_STEPS, dtype=torch.float32):
    """Parameters after some steps of make(parameters): an optimizer, or a function of the step's number."""
    p = {name: torch.nn.Parameter(hashed(shape, 0, i).to(dtype)) for i, (name, shape) in enumerate(OPTIMIZED.items())}
    optimizer = make(p)
    for t in range(1, steps + 1):
        for i, v in enumerate(p.values()):
            v.grad = gradient(v.shape, t, i).to(dtype)
        with torch.no_grad():
            optimizer(t) if callable(optimizer) else optimizer.step()
    return {name: v.detach().float() for name, v in p.items()}


def by_rank(p, decay):
    return [{"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": decay},
            {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}]


def lion(p, lr=1e-3, beta1=0.9, beta2=0.99, decay=0.1):
    """Chen et al. 2023, algorithm 2."""
    m = {k: torch.zeros_like(v) for k, v in p.items()}

    def step(_):
        for k, v in p.items():
            c = beta1 * m[k] + (1 - beta1) * v.grad
            v -= lr * (c.sign() + (decay if v.dim() >= 2 else 0.0) * v)
            m[k] = beta2 * m[k] + (1 - beta2) * v.grad
    return step


def any_precision(p, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1):
    """AdamW with moments in bfloat16 and Kahan's summation (as torchdistX has it), but that a sum is made in float and
    rounded once, and weight decay is part of what is compensated."""
    low, c = torch.bfloat16, {k: torch.zeros_like(v) for k, v in p.items()}
    m, s = ({k: torch.zeros_like(v) for k, v in p.items()} for _ in range(2))

    def step(t):
        for k, v in p.items():
            g = v.grad.float()
            m1 = beta1 * m[k].float() + (1 - beta1) * g
            s1 = beta2 * s[k].float() + (1 - beta2) * g * g
            exact = v.float() + c[k].float()
            exact = exact * (1 - lr * (decay if v.dim() >= 2 else 0.0))
            exact -= lr / (1 - beta1**t) * m1 / (s1.sqrt() / math.sqrt(1 - beta2**t) + eps)
            m[k], s[k] = m1.to(low), s1.to(low)
            v.copy_(exact.to(low))
            c[k] = (exact - v.float()).to(low)
    return step


def muon(p, lr=0.02, beta=0.95, decay=0.01):
    """Keller Jordan's Muon with the iteration in float instead of bfloat16, for hidden matrices; here weights are
    [in, out], so rows and columns are those of the transpose. AdamW (lr 3e-4, betas .9 .95, eps 1e-10) for the
    vector."""
    def orthogonal(g):
        x = g.T if g.shape[0] > g.shape[1] else g
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return x.T if g.shape[0] > g.shape[1] else x
    momentum = {k: torch.zeros_like(v) for k, v in p.items()}
    rest = torch.optim.AdamW([p["b"]], lr=3e-4, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, foreach=False)

    def step(_):
        rest.step()
        for k, v in p.items():
            if v.dim() < 2:
                continue
            g = v.grad.T
            momentum[k].lerp_(v.grad, 1 - beta)
            ahead = g.lerp(momentum[k].T, beta)
            v *= 1 - lr * decay
            v -= (lr * math.sqrt(max(1, g.shape[0] / g.shape[1])) * orthogonal(ahead)).T
    return step


def scaled_run(out):
    """PyTorch's GradScaler around SGD: gradients overflow in chosen steps, and the scale grows after three clean
    ones."""
    v = torch.nn.Parameter(hashed((13,), 0, 1))
    optimizer = torch.optim.SGD([v], lr=0.1, momentum=0.9, foreach=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=3)
    bad = {0: math.inf, 1: math.nan, 7: -math.inf, 12: math.inf, 13: math.inf, 20: math.nan}
    scales, weights, skips, skipped = [], [], [], 0
    for t in range(30):
        scale = scaler.scale(torch.ones(()))
        v.grad = gradient((13,), t, 1) * scale
        if t in bad:
            v.grad[t % 13] = bad[t]
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([v], 1.0)
        before = v.detach().clone()
        scaler.step(optimizer)
        skipped += int(t in bad)
        assert (t in bad) == bool((before == v).all())
        scaler.update()
        scales.append(scaler.get_scale())
        skips.append(skipped)
        weights.append(v.detach().clone())
    out["scaler.bad"] = torch.tensor([bad.get(t, 0.0) for t in range(30)], dtype=torch.float32)
    out["scaler.scale"] = torch.tensor(scales, dtype=torch.float32)
    out["scaler.skipped"] = torch.tensor(skips, dtype=torch.int32)
    out["scaler.weights"] = torch.stack(weights)


def optimizers():
    import bitsandbytes
    from transformers.optimization import Adafactor
    out = {}
    runs = {
        "sgd": lambda p: torch.optim.SGD(by_rank(p, 0.01), lr=0.01, foreach=False),
        "sgd_momentum": lambda p: torch.optim.SGD(by_rank(p, 0.01), lr=0.01, momentum=0.9, foreach=False),
        "sgd_nesterov": lambda p: torch.optim.SGD(
            by_rank(p, 0.01), lr=0.01, momentum=0.9, nesterov=True, foreach=False),
        "adamw": lambda p: torch.optim.AdamW(by_rank(p, 0.1), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False),
        "adamw_all": lambda p: torch.optim.AdamW(
            [{"params": [v for k, v in p.items() if k != "tall"], "weight_decay": 0.1},
             {"params": [p["tall"]], "lr": 1e-4, "weight_decay": 0.05}], lr=1e-3, betas=(0.9, 0.95), foreach=False),
        "lion": lion,
        "adafactor": lambda p: Adafactor(p.values(), lr=None),
        "adafactor_warmup": lambda p: Adafactor(p.values(), lr=None, warmup_init=True),
        "adafactor_lr": lambda p: Adafactor(by_rank(p, 0.1), lr=1e-3, scale_parameter=False, relative_step=False),
        "adafactor_beta1": lambda p: Adafactor(
            p.values(), lr=1e-3, scale_parameter=False, relative_step=False, beta1=0.9),
        "adamw_8bit": lambda p: bitsandbytes.optim.AdamW8bit(by_rank(p, 0.1), lr=1e-3, betas=(0.9, 0.95), eps=1e-8),
        "muon": muon,
    }
    for name, make in runs.items():
        out.update({f"{name}.{k}": v for k, v in optimize(make).items()})
    out.update({f"any_precision.{k}": v for k, v in optimize(any_precision, dtype=torch.bfloat16).items()})
    out["map.signed"] = bitsandbytes.functional.create_dynamic_map(True).float()
    out["map.unsigned"] = bitsandbytes.functional.create_dynamic_map(False).float()
    scaled_run(out)
    return out


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "parity"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    directory.mkdir(parents=True, exist_ok=True)
    made_by = {"torch": torch.__version__, "made_by": "tests/parity/make_fixtures.py"}
    cases = Cases()
    for part in (elementwise, reductions, products, network, movement):
        part(cases)
    save(directory / "ops.safetensors", cases.tensors, {**made_by, **NOTES})
    save(directory / "gpt.safetensors", gpt(), {
        **made_by, "layers": str(LAYERS), "heads": str(HEADS), "width": str(WIDTH), "context": str(CONTEXT),
        "vocabulary": str(VOCABULARY), "batch": str(BATCH), "steps": str(STEPS),
        "optimizer": "AdamW, betas .9 .95, eps 1e-8, weight decay .1 on rank >= 2, gradients clipped to global norm 1 "
                     "by min(1, 1/(norm+1e-6)); the weight stored once (wte) is embedding and head",
        "contents": "param.*: start; loss.f64/f32, grad.f64.*/grad.f32.*: step 0, before clipping; norm.*: global norm "
                    "before clipping; curve.*: loss of each step; lr; final.f64.*: parameters after the last step"})
    save(directory / "gpt_autocast.safetensors", gpt_autocast(), {
        **made_by, "contents": "of the model in gpt.safetensors, parameters in float32: loss.bf16/f16, "
                               "grad.bf16.*/grad.f16.*: step 0 under torch.autocast(\"cpu\") in that type"})
    save(directory / "optimizers.safetensors", optimizers(), {
        **made_by, "steps": str(OPTIMIZER_STEPS),
        "contents": "<optimizer>.<tensor>: parameters after the last step; start and gradients are hashes, see "
                    "hashed(); map.*: codes of 8 bits; scaler.*: scale, skips and weights after each step, bad: what "
                    "is put into the gradient"})


if __name__ == "__main__":
    main()
