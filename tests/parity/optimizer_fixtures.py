"""Steps of each optimizer for make_fixtures.py, and a run of PyTorch's GradScaler. Needs transformers for Adafactor and
bitsandbytes for AdamW of 8 bits."""
import math

import numpy as np
import torch

from fixtures import by_rank, file

# One tensor is large enough for states of 8 bits, and its last block of 256 is short.
SHAPES = {"w": (7, 13), "b": (13,), "tall": (29, 6), "large": (67, 63)}
STEPS = 50


def hashed(shape, round_, tensor):
    """Numbers in [-0.5, 0.5) that any language can make again: a hash of the element, the tensor and the round."""
    x = np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(100003 * tensor + 1000003 * round_ + 12345)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    values = (x >> np.uint64(8)).astype(np.float32) * np.float32(2**-24) - np.float32(0.5)
    return torch.from_numpy(values.reshape(shape))


def gradient(shape, step, tensor):
    """Mostly noise, with a mean that the states see: as a hash, less a tenth."""
    return hashed(shape, step, tensor) - np.float32(0.1)


def optimize(make, dtype=torch.float32):
    """Parameters after some steps of make(parameters): an optimizer, or a function of the step's number."""
    p = {name: torch.nn.Parameter(hashed(shape, 0, i).to(dtype)) for i, (name, shape) in enumerate(SHAPES.items())}
    optimizer = make(p)
    for t in range(1, STEPS + 1):
        for i, v in enumerate(p.values()):
            v.grad = gradient(v.shape, t, i).to(dtype)
        with torch.no_grad():
            optimizer(t) if callable(optimizer) else optimizer.step()
    return {name: v.float() for name, v in p.items()}


def zeros(p):
    return {k: torch.zeros_like(v) for k, v in p.items()}


def lion(p, lr=1e-3, beta1=0.9, beta2=0.99, decay=0.1):
    """Chen et al. 2023, algorithm 2."""
    m = zeros(p)

    def step(_):
        for k, v in p.items():
            c = beta1 * m[k] + (1 - beta1) * v.grad
            v -= lr * (c.sign() + (decay if v.dim() >= 2 else 0.0) * v)
            m[k] = beta2 * m[k] + (1 - beta2) * v.grad
    return step


def any_precision(p, lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, decay=0.1):
    """AdamW with moments in bfloat16 and Kahan's summation (as torchdistX has it), but that a sum is made in float and
    rounded once, and weight decay is part of what is compensated."""
    m, s, c = zeros(p), zeros(p), zeros(p)

    def step(t):
        for k, v in p.items():
            g = v.grad.float()
            m1 = beta1 * m[k].float() + (1 - beta1) * g
            s1 = beta2 * s[k].float() + (1 - beta2) * g * g
            exact = v.float() + c[k].float()
            exact = exact * (1 - lr * (decay if v.dim() >= 2 else 0.0))
            exact -= lr / (1 - beta1**t) * m1 / (s1.sqrt() / math.sqrt(1 - beta2**t) + eps)
            m[k], s[k] = m1.bfloat16(), s1.bfloat16()
            v.copy_(exact.bfloat16())
            c[k] = (exact - v.float()).bfloat16()
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
    momentum = zeros(p)
    rest = torch.optim.AdamW([p["b"]], lr=3e-4, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, foreach=False)

    def step(_):
        rest.step()
        for k, v in p.items():
            if v.dim() >= 2:
                g = v.grad.T
                momentum[k].lerp_(v.grad, 1 - beta)
                ahead = g.lerp(momentum[k].T, beta)
                v *= 1 - lr * decay
                v -= (lr * math.sqrt(max(1, g.shape[0] / g.shape[1])) * orthogonal(ahead)).T
    return step


def scaled_run(fixture):
    """PyTorch's GradScaler around SGD: gradients overflow in chosen steps, and the scale grows after three clean
    ones."""
    v = torch.nn.Parameter(hashed((13,), 0, 1))
    optimizer = torch.optim.SGD([v], lr=0.1, momentum=0.9, foreach=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=3)
    bad = torch.zeros(30)
    bad[[0, 12, 13]], bad[[1, 20]], bad[7] = math.inf, math.nan, -math.inf
    scales, weights = [], [v.detach().clone()]
    for t, wrong in enumerate(bad):
        v.grad = gradient((13,), t, 1) * scaler.scale(torch.ones(()))
        if wrong != 0:
            v.grad[t % 13] = wrong
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([v], 1.0)
        scaler.step(optimizer)
        weights.append(v.detach().clone())
        assert (wrong != 0) == torch.equal(*weights[-2:])
        scaler.update()
        scales.append(scaler.get_scale())
    fixture.put("scaler", bad=bad, scale=torch.tensor(scales), skipped=(bad != 0).cumsum(0),
                weights=torch.stack(weights[1:]))


@file(steps=str(STEPS),
      contents="<optimizer>.<tensor>: parameters after the last step; start and gradients are hashes, see hashed(); "
               "map.*: codes of 8 bits; scaler.*: scale, skips and weights after each step, bad: what is put into the "
               "gradient")
def optimizers(fixture):
    from bitsandbytes.functional import create_dynamic_map
    from bitsandbytes.optim import AdamW8bit
    from transformers.optimization import Adafactor

    def sgd(**how):
        return lambda p: torch.optim.SGD(by_rank(p.values(), 0.01), lr=0.01, foreach=False, **how)

    def adafactor(**how):
        return lambda p: Adafactor(p.values(), **how)
    betas, plain = (0.9, 0.95), {"lr": 1e-3, "scale_parameter": False, "relative_step": False}
    runs = {
        "sgd": sgd(), "sgd_momentum": sgd(momentum=0.9), "sgd_nesterov": sgd(momentum=0.9, nesterov=True),
        "adamw": lambda p: torch.optim.AdamW(by_rank(p.values(), 0.1), lr=1e-3, betas=betas, foreach=False),
        "adamw_all": lambda p: torch.optim.AdamW(
            [{"params": [v for k, v in p.items() if k != "tall"], "weight_decay": 0.1},
             {"params": [p["tall"]], "lr": 1e-4, "weight_decay": 0.05}], lr=1e-3, betas=betas, foreach=False),
        "adamw_8bit": lambda p: AdamW8bit(by_rank(p.values(), 0.1), lr=1e-3, betas=betas),
        "lion": lion, "muon": muon,
        "adafactor": adafactor(lr=None), "adafactor_warmup": adafactor(lr=None, warmup_init=True),
        "adafactor_lr": lambda p: Adafactor(by_rank(p.values(), 0.1), **plain),
        "adafactor_beta1": adafactor(beta1=0.9, **plain)}
    for name, make in runs.items():
        fixture.put(name, **optimize(make))
    fixture.put("any_precision", **optimize(any_precision, torch.bfloat16))
    fixture.put("map", signed=create_dynamic_map(True).float(), unsigned=create_dynamic_map(False).float())
    scaled_run(fixture)
