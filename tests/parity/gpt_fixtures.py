"""A small GPT-2 for make_fixtures.py: first loss and gradients, also under autocast, and steps of AdamW."""
import math

import torch
import torch.nn.functional as F

from fixtures import by_rank, file, train

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH, STEPS = 2, 3, 39, 13, 61, 3, 20
WARMUP, BASE_LR, MIN_LR = 5, 3e-3, 3e-4


def attend(qkv, heads, causal):
    batch, length, packed = qkv.shape
    depth = packed // (3 * heads)
    q, k, v = (part.view(batch, length, heads, depth).transpose(1, 2) for part in qkv.split(heads * depth, dim=-1))
    scores = q @ k.transpose(-2, -1) / math.sqrt(depth)
    if causal:
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * depth)


def parameters(g):
    """Parameters far from a usual start: biases and gains are random too, so that no gradient is near zero."""
    def normal(*shape, scale, shift=0.0):
        return shift + scale * torch.randn(shape, generator=g, dtype=torch.float64)
    p = {"wte.weight": normal(VOCABULARY, WIDTH, scale=0.3), "wpe.weight": normal(CONTEXT, WIDTH, scale=0.3)}
    for name in [f"h.{n}.ln_{i}" for n in range(LAYERS) for i in (1, 2)] + ["ln_f"]:
        p[name + ".weight"] = normal(WIDTH, scale=0.2, shift=1.0)
        p[name + ".bias"] = normal(WIDTH, scale=0.2)
    for n in range(LAYERS):
        for name, rows, columns in [("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                    ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)]:
            p[f"h.{n}.{name}.weight"] = normal(rows, columns, scale=1.0 / math.sqrt(rows))
            p[f"h.{n}.{name}.bias"] = normal(columns, scale=0.2)
    return p


def data():
    g = torch.Generator().manual_seed(1234)
    start = parameters(g)
    # A text with something to learn: each token follows from the one before, but for one in four.
    follow = torch.randperm(VOCABULARY, generator=g)
    text = torch.randint(0, VOCABULARY, (STEPS, BATCH, CONTEXT + 1), generator=g)
    for i in range(1, CONTEXT + 1):
        noise = torch.rand(STEPS, BATCH, generator=g) < 0.25
        text[..., i] = torch.where(noise, text[..., i], follow[text[..., i - 1]])
    return start, text[..., :-1], text[..., 1:]


def loss_of(p, tokens, targets):
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


def first(fixture, tag, dtype, autocast=None):
    """Parameters in a type; loss and gradients of the first batch are recorded."""
    start, tokens, goals = data()
    p = {name: value.to(dtype).clone().requires_grad_() for name, value in start.items()}
    with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        loss = loss_of(p, tokens[0], goals[0])
    fixture.put("loss", **{tag: loss})
    fixture.put("grad." + tag, **dict(zip(p, torch.autograd.grad(loss, list(p.values())))))
    return p


@file(layers=str(LAYERS), heads=str(HEADS), width=str(WIDTH), context=str(CONTEXT), vocabulary=str(VOCABULARY),
      batch=str(BATCH), steps=str(STEPS),
      optimizer="AdamW, betas .9 .95, eps 1e-8, weight decay .1 on rank >= 2, gradients clipped to global norm 1 "
                "by min(1, 1/(norm+1e-6)); the weight stored once (wte) is embedding and head",
      contents="param.*: start; loss.f64/f32, grad.f64.*/grad.f32.*: step 0, before clipping; norm.*: global norm "
               "before clipping; curve.*: loss of each step; lr; final.f64.*: parameters after the last step")
def gpt(fixture):
    start, tokens, goals = data()
    rates = [learning_rate(t) for t in range(STEPS)]
    fixture.update(tokens=tokens.int(), targets=goals.int(), lr=torch.tensor(rates, dtype=torch.float64))
    fixture.put("param", **start)
    for dtype, tag in ((torch.float64, "f64"), (torch.float32, "f32")):
        p = first(fixture, tag, dtype)
        optimizer = torch.optim.AdamW(by_rank(p.values(), 0.1), betas=(0.9, 0.95), eps=1e-8, foreach=False)

        def scheduled_loss(t):
            for group in optimizer.param_groups:
                group["lr"] = rates[t]
            return loss_of(p, tokens[t], goals[t])
        fixture[f"curve.{tag}"], fixture[f"norm.{tag}"] = train(p.values(), optimizer, scheduled_loss, STEPS)
        if tag == "f64":
            fixture.put("final.f64", **p)


@file(contents="of the model in gpt.safetensors, parameters in float32: loss.bf16/f16, grad.bf16.*/grad.f16.*: step 0 "
               "under torch.autocast(\"cpu\") in that type")
def gpt_autocast(fixture):
    for dtype, tag in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        first(fixture, tag, torch.float32, dtype)
