#!/usr/bin/env python3
"""Writes tests/data/parity/mixture.safetensors: two mixtures of experts by PyTorch in double, their auxiliary losses,
and all gradients of sum(dy * y) + auxiliary loss. The first is also compared with transformers' Mixtral.

    python3 make_mixture_fixtures.py  # needs torch and transformers

mixtral   4 experts with SwiGLU, 2 per token, gates renormalised
switch    5 experts that are MLPs (GELU, tanh form), 1 per token, gates kept, at most 5 tokens an expert
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func

from make_fixtures import save

BATCH, TIME, WIDTH, HIDDEN = 2, 11, 6, 10
BALANCE, Z = 0.3, 0.2


def mixture(x, p, per_token, renormalise, capacity):
    """y, the balance loss and the z loss; p: router [width, experts], experts as [experts, in, out]."""
    rows = x.reshape(-1, WIDTH)
    logits = rows @ p["router"]
    probabilities = logits.softmax(-1)
    gates, chosen = probabilities.topk(per_token, -1)
    if renormalise:
        gates = gates / gates.sum(-1, keepdim=True)
    experts = logits.shape[-1]
    y = torch.zeros_like(rows)
    counts = torch.zeros(experts, dtype=x.dtype)
    for e in range(experts):
        token, k = torch.where(chosen == e)
        counts[e] = len(token)
        token, k = token[:capacity], k[:capacity]
        if "gate" in p:
            hidden = F.silu(rows[token] @ p["gate"][e]) * (rows[token] @ p["up"][e])
        else:
            hidden = F.gelu(rows[token] @ p["up"][e], approximate="tanh")
        y = y.index_add(0, token, gates[token, k, None] * (hidden @ p["down"][e]))
    balance = experts * (counts / counts.sum() * probabilities.mean(0)).sum()
    return y.reshape(x.shape), balance, logits.logsumexp(-1).square().mean(), counts


def add(tensors, name, experts, parts, **how):
    g = torch.Generator().manual_seed(36)
    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)
    leaves = {"x": normal(BATCH, TIME, WIDTH), "router": normal(WIDTH, experts)}
    for part in parts:
        leaves[part] = 0.5 * normal(experts, *((HIDDEN, WIDTH) if part == "down" else (WIDTH, HIDDEN)))
    dy = normal(BATCH, TIME, WIDTH)
    operands = {n: t.clone().requires_grad_() for n, t in leaves.items()}
    y, balance, z, counts = mixture(operands["x"], operands, **how)
    auxiliary = BALANCE * balance + Z * z
    gradients = torch.autograd.grad((y * dy).sum() + auxiliary, list(operands.values()))
    tensors.update({f"{name}.{n}": t for n, t in leaves.items()})
    tensors.update({f"{name}.d{n}": t for n, t in zip(operands, gradients)})
    tensors.update({f"{name}.dy": dy, f"{name}.y": y, f"{name}.auxiliary": auxiliary,
                    f"{name}.counts": counts.to(torch.int32)})
    return leaves, y, balance, counts


def compare_with_transformers(leaves, y, balance):
    config = MixtralConfig(hidden_size=WIDTH, intermediate_size=HIDDEN, num_local_experts=4, num_experts_per_tok=2)
    block = MixtralSparseMoeBlock(config).double().eval()
    with torch.no_grad():
        block.gate.weight.copy_(leaves["router"].T)
        block.experts.gate_up_proj.copy_(torch.cat([leaves["gate"], leaves["up"]], -1).transpose(1, 2))
        block.experts.down_proj.copy_(leaves["down"].transpose(1, 2))
        theirs = block(leaves["x"])  # their router rounds to float
        logits = leaves["x"].reshape(-1, WIDTH) @ leaves["router"]
    assert (theirs - y).abs().max() < 1e-6
    assert abs(load_balancing_loss_func((logits,), 4, 2) - 2 * balance) < 1e-6  # theirs counts each choice as a token


def main():
    tensors = {}
    leaves, y, balance, _ = add(tensors, "mixtral", 4, ["gate", "up", "down"], per_token=2, renormalise=True,
                                capacity=BATCH * TIME)
    compare_with_transformers(leaves, y, balance)
    *_, counts = add(tensors, "switch", 5, ["up", "down"], per_token=1, renormalise=False, capacity=5)
    assert counts.max() > 5
    save(Path(__file__).resolve().parent.parent / "data" / "parity" / "mixture.safetensors", tensors,
         {"torch": torch.__version__, "script": "tests/parity/make_mixture_fixtures.py"})


if __name__ == "__main__":
    main()
