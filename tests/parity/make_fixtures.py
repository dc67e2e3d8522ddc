#!/usr/bin/env python3
"""Writes the numbers that the parity tests compare gradus against, computed by PyTorch.

    python3 tests/parity/make_fixtures.py [output directory [file...]]

Files in the safetensors format come out, the same on every run with the same PyTorch on the same processor; those named
alone, or all:

ops, functions, indexing, convolutions, images, attention
                  Cases as Fixture.case in fixtures.py records them: <case>.<part>. Inputs have the op's usual letters
                  (x, a, b, w, ...). What an op means exactly (constants, conventions) is in the files' own
                  __metadata__. images: also steps of a small residual net; attention: every option and pair of options.
recurrent, mixture
                  Outputs, losses and gradients of LSTM, GRU and mixtures of experts (which needs transformers).
gpt, gpt_autocast A small GPT-2: parameters, first loss and gradients, twenty steps of AdamW; the first loss and
                  gradients under torch.autocast in bfloat16 and float16. See gpt_fixtures.py.
optimizers        Fifty steps of each optimizer on a few tensors of odd shapes. See optimizer_fixtures.py.
"""
import itertools
import math
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

import optimizer_fixtures  # noqa: F401, which adds its file
from fixtures import DATA, away_from, file, integers, normal, positive, targets, write_files
from gpt_fixtures import attend

OPS_NOTES = {
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


@file(**OPS_NOTES)
def ops(fixture):
    for part in (elementwise, reductions, products, network, movement):
        part(fixture.case)


def elementwise(case):
    a, b, shape = (3, 1, 5), (4, 1), (3, 5, 7)
    for name in ("add", "sub", "mul", "minimum", "maximum"):
        case(name, getattr(torch, name), a=a, b=b)
    case("div", torch.div, a=a, b=positive(*b))
    for op in (torch.neg, torch.exp, torch.tanh, torch.sigmoid, F.silu):
        case(op.__name__, op, x=shape)
    case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), x=shape)
    case("gelu_erf", F.gelu, x=shape)
    for op in (torch.log, torch.sqrt, torch.rsqrt):
        case(op.__name__, op, x=positive(*shape))
    case("pow", lambda x: x**2.5, x=positive(*shape))
    case("pow_int", lambda x: x**3, x=shape)
    case("pow_tensor", torch.pow, a=positive(*shape), b=shape)
    case("relu", torch.relu, x=away_from([0.0], *shape))
    case("abs", torch.abs, x=away_from([0.0], *shape))
    case("clamp", lambda x: x.clamp(-0.5, 0.75), x=away_from([-0.5, 0.75], *shape))
    case("where", lambda cond, a, b: torch.where(cond != 0, a, b), cond=integers(0, 2, *shape), a=shape, b=shape)


def reductions(case):
    x = (3, 5, 7)
    for axes in ((0,), (1,), (2,), (0, 2)):
        suffix = "".join(map(str, axes))
        for name, op in [("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin)]:
            case(f"{name}_{suffix}", lambda x: op(x, dim=axes), x=x)
        case(f"var_{suffix}", lambda x: x.var(axes, correction=0), x=x)
        case(f"var_unbiased_{suffix}", lambda x: x.var(axes, correction=1), x=x)
    for axis in range(3):
        case(f"argmax_{axis}", lambda x: x.argmax(axis), x=x)
    case("sum_1_keep", lambda x: x.sum(1, keepdim=True), x=x)
    case("mean_2_keep", lambda x: x.mean(2, keepdim=True), x=x)
    for op in (torch.sum, torch.mean, torch.max):
        case(op.__name__ + "_all", op, x=x)
    case("var_all", lambda x: x.var(correction=0), x=x)


def products(case):
    def tn(a, b): return a.mT @ b
    def nt(a, b): return a @ b.mT
    case("matmul", torch.matmul, a=(5, 7), b=(7, 3))
    case("matmul_tn", tn, a=(7, 5), b=(7, 3))
    case("matmul_nt", nt, a=(5, 7), b=(3, 7))
    case("matmul_batched", torch.matmul, a=(2, 3, 5, 7), b=(2, 3, 7, 4))
    case("matmul_batched_tn", tn, a=(2, 3, 7, 5), b=(2, 3, 7, 4))
    case("matmul_batched_nt", nt, a=(2, 3, 5, 7), b=(2, 3, 4, 7))
    case("matmul_broadcast", torch.matmul, a=(2, 3, 5, 7), b=(7, 4))
    case("linear", lambda x, w, b: x @ w + b, x=(2, 5, 7), w=(7, 3), b=(3,))
    case("linear_nobias", torch.matmul, x=(2, 5, 7), w=(7, 3))


def network(case):
    def large(g):
        x = normal(g, 3, 5, 11)
        x[0, 0] += 700.0
        x[1, 2] -= 700.0
        x[2, 4, 3] = 700.0
        return x
    for op in (torch.softmax, torch.log_softmax):
        case(op.__name__, lambda x: op(x, -1), x=(3, 5, 11))
        case(op.__name__ + "_large", lambda x: op(x, -1), x=large)
    case("layer_norm", lambda x, w, b: F.layer_norm(x, (13,), w, b, 1e-5), x=(3, 5, 13), w=(13,), b=(13,))
    case("rms_norm", lambda x, w: x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w, x=(3, 5, 13), w=(13,))
    case("embedding", F.embedding, tokens=torch.tensor([[1, 4, 4, 10], [0, 1, 1, 7], [10, 4, 2, 0]]), w=(11, 5))
    case("attention", lambda qkv: attend(qkv, 3, True), qkv=(2, 13, 45))
    case("attention_full", lambda qkv: attend(qkv, 3, False), qkv=(2, 13, 45))

    def cross_entropy(logits, targets):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    case("cross_entropy", cross_entropy, logits=(4, 5, 17), targets=targets(17, 4, 5))
    case("cross_entropy_padded", lambda logits, targets: cross_entropy(logits[..., :61], targets), logits=(3, 5, 64),
         targets=targets(61, 3, 5))


def movement(case):
    case("permute", lambda x: x.permute(1, 2, 0), x=(2, 3, 5))
    case("transpose", torch.t, x=(3, 5))
    case("slice", lambda x: x[:, 2:6], x=(5, 7, 3))
    case("concat", lambda a, b: torch.cat([a, b], 1), a=(2, 3, 5), b=(2, 4, 5))
    case("split", lambda x: x.split([2, 3, 4], 1), x=(2, 9, 5))


FUNCTION_NOTES = {
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


@file(**FUNCTION_NOTES)
def functions(fixture):
    case, x = fixture.case, (3, 5, 7)
    case("sin", lambda x: torch.sin(3 * x), x=x)
    case("cos", lambda x: torch.cos(3 * x), x=x)
    for op in (torch.erf, torch.expm1, F.softplus):
        case(op.__name__, op, x=x)
    case("log1p", torch.log1p, x=positive(*x))
    case("atan2", torch.atan2, a=(3, 1, 5), b=(4, 1))
    case("steps", lambda x: torch.floor(x) + torch.ceil(x) * x + torch.round(x) + torch.sign(x),
         x=away_from([k / 2 for k in range(-8, 9)], *x))

    def with_zeros(g):
        values = normal(g, *x)
        values[0, 2, 3] = values[1, 0, 0] = values[1, 4, 0] = values[2, 1, 6] = 0
        return values
    for axis, how in enumerate((x, with_zeros, with_zeros)):
        case(f"prod_{axis}", lambda x: x.prod(axis), x=how)
        case(f"argmin_{axis}", lambda x: x.argmin(axis), x=x)
        case(f"cumsum_{axis}", lambda x: x.cumsum(axis), x=x)
    case("prod_all", torch.prod, x=positive(*x))
    for suffix, axes in (("1", (1,)), ("02", (0, 2))):
        case(f"std_{suffix}", lambda x: x.std(axes, correction=0), x=x)
        case(f"logsumexp_{suffix}", lambda x: x.logsumexp(axes), x=x)
    losses(case)


def losses(case):
    x, rows, w = (3, 5, 7), (4, 5, 17), integers(1, 6, 17)

    def probabilities(*shape):
        return lambda g: torch.softmax(2 * normal(g, *shape), -1)

    def uniform(g):
        return torch.rand(x, generator=g, dtype=torch.float64)
    for suffix, how in (("", "mean"), ("_sum", "sum"), ("_none", "none")):
        for name, loss, t in [("mse", F.mse_loss, x), ("l1", F.l1_loss, x), ("kl", F.kl_div, probabilities(*x)),
                              ("bce", F.binary_cross_entropy_with_logits, uniform)]:
            case(name + suffix, lambda x, t: loss(x, t, reduction=how), x=x, t=t)
        case("huber" + suffix, lambda x, t: F.huber_loss(x, t, reduction=how, delta=0.7), x=x, t=x)

        def of_rows(name, loss, t=targets(17, 4, 5), **options):
            def flat(x, t, w=None):
                weight = {} if w is None else {"weight": w.double()}
                y = loss(x.flatten(0, 1), t.flatten(0, 1), reduction=how, **options, **weight)
                return y.view(4, 5) if how == "none" else y
            case(name + suffix, flat, x=rows, t=t, **({"w": w} if "weighted" in name else {}))
        smooth = {"label_smoothing": 0.1}
        of_rows("nll", F.nll_loss, ignore_index=-1)
        of_rows("nll_weighted", F.nll_loss, ignore_index=-1)
        of_rows("ce", F.cross_entropy, ignore_index=-1)
        of_rows("ce_smooth", F.cross_entropy, ignore_index=-1, **smooth)
        of_rows("ce_weighted", F.cross_entropy, ignore_index=-1, **smooth)
        of_rows("ce_soft", F.cross_entropy, probabilities(*rows), **smooth)
    case("bce_weighted", lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w.double()), x=x,
         t=uniform, w=integers(1, 6, 7))


@file(contents="cases as in ops.safetensors; topk: y0 values, y1 indices")
def indexing(fixture):
    case, x = fixture.case, (3, 5, 7)
    case("stack", lambda a, b: torch.stack([a, b, a], 1), a=(2, 3, 5), b=(2, 3, 5))
    case("pad", lambda x: F.pad(x, (0, 0, 2, 1), value=1.5), x=(2, 3, 5))
    case("roll", lambda x: x.roll(-2, 1), x=(2, 7, 3))
    case("expand", lambda x: x.expand(4, 3, 5, 2), x=(3, 1, 2))
    case("tril", lambda x: x.tril(1), x=(2, 5, 7))
    case("triu", lambda x: x.triu(-2), x=(2, 5, 7))
    for name, text, a, b in [("matmul", "bij,bjk->bik", (2, 3, 5), (2, 5, 4)),
                             ("permuted", "ibj,kjb->bki", (3, 2, 5), (4, 5, 2)),
                             ("two_sums", "bijk,kjl->lib", (2, 3, 5, 4), (4, 5, 7)),
                             ("alone", "ijk,jl->il", (3, 5, 4), (5, 7)),
                             ("outer", "bi,k->kib", (2, 3), (5,)),
                             ("dot", "bij,bji->b", (2, 3, 5), (2, 5, 3))]:
        case("einsum_" + name, lambda a, b: torch.einsum(text, a, b), a=a, b=b)
    case("einsum_one", lambda a: torch.einsum("ijk->ki", a), a=(2, 3, 5))
    at = integers(0, 5, 3, 11, 7)
    case("gather", lambda x, at: x.gather(1, at), x=x, at=at)
    case("index_select", lambda x, at: x.index_select(1, at), x=x, at=integers(0, 5, 9))
    case("scatter_add", lambda x, at, v: x.scatter_add(1, at, v), x=x, at=at, v=(3, 11, 7))
    case("one_hot", lambda at: F.one_hot(at, 6), at=integers(0, 6, 3, 5))
    case("sort", lambda x: torch.sort(x, stable=True)[0], x=(3, 5, 11))
    case("argsort", lambda x: torch.argsort(x, stable=True), x=integers(0, 4, 3, 19))
    case("argsort_descending", lambda x: torch.argsort(x, stable=True, descending=True), x=integers(0, 4, 3, 19))
    case("topk", lambda x: x.topk(4), x=(3, 5, 11))


@file()
def convolutions(fixture):
    case = fixture.case
    case("conv2d", F.conv2d, x=(2, 3, 5, 7), w=(4, 3, 3, 2), b=(4,))
    case("conv2d_padded", lambda x, w, b: F.conv2d(x, w, b, padding=1), x=(2, 3, 4, 6), w=(5, 3, 3, 3), b=(5,))
    case("conv2d_all", lambda x, w, b: F.conv2d(x, w, b, stride=(2, 3), padding=(3, 1), dilation=(2, 1), groups=2),
         x=(2, 4, 7, 8), w=(6, 2, 3, 2), b=(6,))
    case("conv2d_depthwise", lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=4), x=(2, 4, 6, 5), w=(8, 1, 3, 3))
    case("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=2, dilation=3, groups=3), x=(2, 6, 17),
         w=(3, 2, 4), b=(3,))
    case("conv_transpose2d", F.conv_transpose2d, x=(2, 3, 4, 5), w=(3, 4, 2, 3), b=(4,))
    case("conv_transpose2d_all", lambda x, w, b: F.conv_transpose2d(
        x, w, b, stride=(3, 2), padding=(1, 2), output_padding=(2, 1), groups=2, dilation=(1, 3)),
        x=(2, 4, 3, 4), w=(4, 3, 4, 2), b=(6,))


@file()
def images(fixture):
    case, x, line = fixture.case, (2, 3, 7, 9), (2, 3, 11)
    case("max_pool2d", lambda x: F.max_pool2d(x, 2), x=x)
    case("max_pool2d_padded", lambda x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=(1, 0)), x=x)
    case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), x=x)
    case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 4)), x=x)
    case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (10, 4)), x=x)
    case("max_pool1d", lambda x: F.max_pool1d(x, 3, stride=2, padding=1), x=line)
    case("avg_pool1d", lambda x: F.avg_pool1d(x, 4), x=line)
    case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), x=(3, 6, 4, 5), w=(6,), b=(6,))
    case("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x=(3, 6, 13), w=(6,), b=(6,))
    net_steps(fixture)


def conv(before, after, size=3, stride=1):
    return nn.Conv2d(before, after, size, stride, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first, self.first_norm = conv(before, after, 3, stride), nn.BatchNorm2d(after)
        self.second, self.second_norm = conv(after, after), nn.BatchNorm2d(after)
        self.shortcut, self.shortcut_norm = conv(before, after, 1, stride), nn.BatchNorm2d(after)

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut_norm(self.shortcut(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = conv(3, 8), nn.BatchNorm2d(8)
        self.fine, self.coarse, self.head = Block(8, 8, 1), Block(8, 12, 2), nn.Linear(12, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.coarse(self.fine(x)), 1).flatten(1))


def net_steps(fixture, steps=3):
    """Steps of plain SGD on parameters that float has exactly: net.<parameter or running state> before the first,
    net.loss<i> of step i, net.grad.<parameter> of step 0, net.end.<running state> after the last, and net.evaluated:
    the scores of the first images by the running state then. Weights of linear are [in, out]."""
    torch.manual_seed(1)
    net = Net().double()
    for p in net.parameters():
        p.data = (p.data + 0.1 * torch.randn_like(p)).float().double()

    def put(prefix, tensors):
        fixture.put(prefix, **{k: (v.t() if k == "head.weight" else v).clone() for k, v in tensors})
    put("net", ((k, v.float()) for k, v in net.state_dict().items() if "num_batches" not in k))
    x, labels = torch.randn(steps, 4, 3, 11, 10).float(), torch.randint(0, 5, (steps, 4))
    fixture.put("net", x=x, labels=labels)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x[step].double()), labels[step])
        loss.backward()
        fixture.put("net", **{f"loss{step}": loss})
        if step == 0:
            put("net.grad", ((k, p.grad) for k, p in net.named_parameters()))
        optimizer.step()
    put("net.end", ((k, v) for k, v in net.state_dict().items() if "running" in k))
    fixture.put("net", evaluated=net.eval()(x[0].double()))


@file()
def attention(fixture):
    """scaled_dot_product_attention on [B, T, H*D] operands, as the library has them, and rotary embeddings by the
    formula of Hugging Face's transformers."""
    fixture.case("rope_halves", lambda x: rotate(x, 3, 10000.0, 0, False), x=(2, 5, 18))
    fixture.case("rope_pairs", lambda x: rotate(x, 3, 100.0, 7, True), x=(2, 5, 18))
    llama = {"factor": 8.0, "low": 1.0, "high": 4.0, "context": 8192}
    fixture.case("rope_llama3", lambda x: rotate(x, 1, 500000.0, 9000, False, llama), x=(1, 3, 16))

    batch, heads, kv_heads, queries, keys, depth = 2, 4, 2, 5, 7, 3
    g = torch.Generator().manual_seed(35)
    leaves = {"q": normal(g, batch, queries, heads * depth), "k": normal(g, batch, keys, kv_heads * depth),
              "v": normal(g, batch, keys, kv_heads * depth), "bias": normal(g, 1, heads, queries, keys)}
    dy = normal(g, batch, queries, heads * depth)
    lengths = torch.tensor([4, 6], dtype=torch.int32)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 0, 1, 1, 0]], dtype=torch.int32)
    fixture.update(leaves, dy=dy, lengths=lengths, mask=mask)
    distance = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    masks = {"causal": distance <= 0, "window": distance.abs() < 3, "mask": mask.bool()[:, None, None],
             "key_lengths": (torch.arange(keys) < lengths[:, None])[:, None, None]}
    for options in itertools.combinations_with_replacement(
            ["causal", "scale", "key_lengths", "mask", "window", "bias"], 2):
        operands = {name: x.clone().requires_grad_() for name, x in leaves.items()
                    if name != "bias" or "bias" in options}
        added = torch.zeros(batch, 1, queries, keys, dtype=torch.float64)
        for hidden in (~masks[o] for o in options if o in masks):
            added = added.masked_fill(hidden, -math.inf)
        q, k, v = (operands[n].unflatten(-1, (-1, depth)).transpose(1, 2) for n in "qkv")
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=added + operands.get("bias", 0), enable_gqa=True,
                                           scale=0.7 if "scale" in options else None).transpose(1, 2).flatten(2)
        fixture.put(".".join(options), y=y)
        fixture.gradients(".".join(options), y, dy, operands)
    assert not any(x.isnan().any() for x in fixture.values())


def rotate(x, heads, base, position, pairs, scaling=None):
    """Rotary embeddings by transformers' default and llama3 rope parameters."""
    x = x.unflatten(-1, (heads, -1))
    inverse = 1.0 / (base ** (torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1]))
    if scaling:
        turns = scaling["context"] / (2 * math.pi / inverse)
        smooth = ((turns - scaling["low"]) / (scaling["high"] - scaling["low"])).clamp(0, 1)
        inverse = (1 - smooth) * inverse / scaling["factor"] + smooth * inverse
    angles = ((torch.arange(x.shape[1], dtype=torch.float64) + position)[:, None] * inverse)[:, None]
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if pairs else x.chunk(2, -1)
    turned = [a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()]
    return torch.stack(turned, -1 if pairs else -2).flatten(2)


@file()
def recurrent(fixture):
    """Losses and gradients of models with LSTM and GRU. Weights are [in, out], as the library has them, and the two
    biases of an LSTM are their sum. Parameters saturate no gate and leave none linear."""
    g = torch.Generator().manual_seed(36)
    batch, time, inputs, hidden, classes = 3, 5, 6, 7, 4

    def drawn(module):
        for p in module.double().parameters():
            p.data = normal(g, *p.shape) * 0.5
        return module

    def put(name, **leaves):
        """Values and their gradients, once they are computed."""
        for n, v in leaves.items():
            value, gradient = (t.t() if t.dim() == 2 else t for t in (v.data, v.grad))
            fixture.put(name, **{n: value, "d" + n: gradient})

    def put_layer(name, net, suffix):
        ih, hh, b, c = (getattr(net, f"{part}_{suffix}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        put(name, ih=ih, hh=hh)
        if isinstance(net, nn.LSTM):
            fixture.put(name, b=b.data + c.data, db=b.grad)
        else:
            put(name, b=b, c=c)

    for kind, layers in ((nn.LSTM, 2), (nn.GRU, 1)):  # from states to a linear layer
        name, is_lstm = kind.__name__.lower(), kind is nn.LSTM
        net, head = drawn(kind(inputs, hidden, layers, batch_first=True)), drawn(nn.Linear(hidden, classes))
        state = (layers, batch, hidden)
        x, h, c = (normal(g, *shape).requires_grad_() for shape in ((batch, time, inputs), state, state))
        labels = torch.randint(0, classes, (batch, time), generator=g)
        y, last = net(x, (h, c) if is_lstm else h)
        loss = F.cross_entropy(head(y).flatten(0, 1), labels.flatten())
        loss = loss + (last[0] * last[1] if is_lstm else last * last).mean()
        loss.backward()
        put(name, x=x, h=h, **({"c": c} if is_lstm else {}))
        for i in range(layers):
            put_layer(f"{name}.{i}", net, f"l{i}")
        fixture.put(name, targets=labels, loss=loss)
        put(f"{name}.head", w=head.weight, b=head.bias)

    # Both directions of rows of different lengths; outputs after a row's end do not count.
    net = drawn(nn.LSTM(inputs, hidden, batch_first=True, bidirectional=True))
    lengths, x = torch.tensor([3, 5, 1]), normal(g, batch, time, inputs).requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)
    dy = normal(g, batch, time, 2 * hidden) * (torch.arange(time) < lengths[:, None])[..., None]
    y.backward(dy)
    put("both", x=x)
    fixture.put("both", lengths=lengths, dy=dy, y=y)
    put_layer("both.forward", net, "l0")
    put_layer("both.reverse", net, "l0_reverse")


@file()
def mixture(fixture):
    """Two mixtures of experts, their auxiliary losses, and all gradients of sum(dy * y) + auxiliary loss.

    mixtral   4 experts with SwiGLU, 2 per token, gates renormalised; compared with transformers' Mixtral
    switch    5 experts that are MLPs (GELU, tanh form), 1 per token, gates kept, at most 5 tokens an expert
    """
    batch, time, width, hidden = 2, 11, 6, 10

    def route(p, per_token, renormalise, capacity):
        """y, the balance loss, the z loss and the tokens of each expert; router [width, experts], experts as
        [experts, in, out]."""
        rows = p["x"].flatten(0, 1)
        logits = rows @ p["router"]
        probabilities = logits.softmax(-1)
        gates, chosen = probabilities.topk(per_token, -1)
        if renormalise:
            gates = gates / gates.sum(-1, keepdim=True)
        experts = logits.shape[-1]
        y = torch.zeros_like(rows)
        counts = torch.bincount(chosen.flatten(), minlength=experts).double()
        for e in range(experts):
            token, k = (i[:capacity] for i in torch.where(chosen == e))
            if "gate" in p:
                inner = F.silu(rows[token] @ p["gate"][e]) * (rows[token] @ p["up"][e])
            else:
                inner = F.gelu(rows[token] @ p["up"][e], approximate="tanh")
            y = y.index_add(0, token, gates[token, k, None] * (inner @ p["down"][e]))
        balance = experts * (counts / counts.sum() * probabilities.mean(0)).sum()
        return y.view(batch, time, width), balance, logits.logsumexp(-1).square().mean(), counts

    def add(name, experts, parts, **how):
        g = torch.Generator().manual_seed(36)
        leaves = {"x": normal(g, batch, time, width), "router": normal(g, width, experts)}
        for part in parts:
            leaves[part] = 0.5 * normal(g, experts, *((hidden, width) if part == "down" else (width, hidden)))
        dy = normal(g, batch, time, width)
        operands = {n: t.clone().requires_grad_() for n, t in leaves.items()}
        y, balance, z, counts = route(operands, **how)
        auxiliary = 0.3 * balance + 0.2 * z
        fixture.put(name, **leaves, dy=dy, y=y, auxiliary=auxiliary, counts=counts.int())
        fixture.gradients(name, (y * dy).sum() + auxiliary, None, operands)
        return leaves, y, balance, counts

    compare_with_transformers(*add("mixtral", 4, ["gate", "up", "down"], per_token=2, renormalise=True, capacity=None))
    *_, counts = add("switch", 5, ["up", "down"], per_token=1, renormalise=False, capacity=5)
    assert counts.max() > 5


def compare_with_transformers(leaves, y, balance, _):
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
    experts, hidden, width = leaves["down"].shape
    block = MixtralSparseMoeBlock(MixtralConfig(hidden_size=width, intermediate_size=hidden, num_local_experts=experts,
                                                num_experts_per_tok=2)).double().eval()
    with torch.no_grad():
        block.gate.weight.copy_(leaves["router"].T)
        block.experts.gate_up_proj.copy_(torch.cat([leaves["gate"], leaves["up"]], -1).mT)
        block.experts.down_proj.copy_(leaves["down"].mT)
        assert (block(leaves["x"]) - y).abs().max() < 1e-6  # their router rounds to float
    logits = leaves["x"].flatten(0, 1) @ leaves["router"]
    assert abs(load_balancing_loss_func((logits,), experts, 2) - 2 * balance) < 1e-6  # each choice counts as a token


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    write_files(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "parity", sys.argv[2:])
