#!/usr/bin/env python3
"""One JAX GPT training run on the CPU, timed: the same network and the same work as torch_gpt.py beside it.

The whole step (loss, gradients, clipping, AdamW) is one jitted function that is given its old state's memory. The
result is one line of JSON on standard output, with the figures of torch_gpt.py and `jax` for its version.

Parameters and optimizer state are float32. With --precision bf16_mixed activations and products are bfloat16, norms and
the loss float32; with bf16_pure the parameters are bfloat16 too.
"""
import argparse
import dataclasses
import json
import os
import statistics
import time


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
}
REAL_TOKENS = 50257  # the larger vocabularies are padded from this


def read_flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SIZES, default="nano")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16_mixed", "bf16_pure"), default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    if o.steps < 1 or o.warmup < 0 or o.threads < 1:
        parser.error("steps and threads must be positive, warmup not negative")
    return o


def status_mib(key):
    """A memory figure of this process, such as VmHWM or VmRSS, in MiB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


def main():
    o = read_flags()
    # XLA makes as many threads as this process has cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:o.threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    size = SIZES[o.model]
    compute = jnp.float32 if o.precision == "fp32" else jnp.bfloat16
    stored = jnp.bfloat16 if o.precision == "bf16_pure" else jnp.float32
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 4 * size.layers + 4))

    def drawn(*shape, scale=0.02):
        return (scale * jax.random.normal(next(keys), shape, jnp.float32)).astype(stored)

    def norm_parameters():
        return {"weight": jnp.ones(size.width, stored), "bias": jnp.zeros(size.width, stored)}

    def linear_parameters(inner, outer, scale=0.02):
        return {"weight": drawn(inner, outer, scale=scale), "bias": jnp.zeros(outer, stored)}

    def block_parameters():
        c, residual = size.width, 0.02 / (2 * size.layers) ** 0.5
        return {"norm1": norm_parameters(), "qkv": linear_parameters(c, 3 * c),
                "projection": linear_parameters(c, c, residual),
                "norm2": norm_parameters(), "up": linear_parameters(c, 4 * c),
                "down": linear_parameters(4 * c, c, residual)}

    def layer_norm(x, p):
        x = x.astype(jnp.float32)
        centred = x - x.mean(-1, keepdims=True)
        y = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return (y * p["weight"] + p["bias"]).astype(compute)

    def linear(x, p):
        return x @ p["weight"].astype(compute) + p["bias"].astype(compute)

    def attention(x, p):
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, size.heads, width // size.heads)
                   for part in jnp.split(linear(x, p["qkv"]), 3, -1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return linear(y.reshape(batch, length, width), p["projection"])

    def loss_of(model, tokens, targets):
        x = (model["tokens"][tokens] + model["positions"]).astype(compute)
        for p in model["blocks"]:
            x = x + attention(layer_norm(x, p["norm1"]), p)
            x = x + linear(jax.nn.gelu(linear(layer_norm(x, p["norm2"]), p["up"]), approximate=True), p["down"])
        logits = (layer_norm(x, model["norm"]) @ model["tokens"].astype(compute).T).astype(jnp.float32)
        hit = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - hit).mean()

    lr, beta1, beta2, eps, decay = 3e-4, 0.9, 0.95, 1e-8, 0.1

    def step(state, tokens, targets):
        model, first, second, count = state
        loss, gradient = jax.value_and_grad(loss_of)(model, tokens, targets)
        squares = sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in jax.tree.leaves(gradient))
        scale = jnp.minimum(1.0, 1.0 / (jnp.sqrt(squares) + 1e-6))
        count = count + 1

        def update(p, g, m, v):
            g = g.astype(jnp.float32) * scale
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            moved = lr * (m / (1 - beta1**count)) / (jnp.sqrt(v / (1 - beta2**count)) + eps)
            kept = p.astype(jnp.float32) * (1 - lr * decay if p.ndim >= 2 else 1.0)
            return (kept - moved).astype(stored), m, v

        updated = jax.tree.map(update, model, gradient, first, second)
        parts = [jax.tree.map(lambda _, u, i=i: u[i], model, updated) for i in range(3)]
        return (*parts, count), loss

    base = status_mib("VmRSS")
    model = {"tokens": drawn(size.vocabulary, size.width), "positions": drawn(size.context, size.width),
             "blocks": [block_parameters() for _ in range(size.layers)], "norm": norm_parameters()}
    params = sum(p.size for p in jax.tree.leaves(model))
    zeros = [jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), model) for _ in range(2)]
    state = (model, *zeros, jnp.zeros((), jnp.float32))
    del model, zeros
    upper = min(size.vocabulary, REAL_TOKENS)
    text = jax.random.randint(next(keys), (size.batch, size.context + 1), 0, upper)
    tokens, targets = text[:, :-1], text[:, 1:]
    run = jax.jit(step, donate_argnums=0)

    times = []
    for i in range(o.warmup + o.steps):
        begin = time.perf_counter()
        state, loss = run(state, tokens, targets)
        jax.block_until_ready((state, loss))
        if i >= o.warmup:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    peak = status_mib("VmHWM")
    print(json.dumps({"tok_s": round(size.batch * size.context / median, 1), "step_ms": round(median * 1e3, 2),
                      "peak_mib": round(peak), "peak_over_base_mib": round(peak - base), "params": params,
                      "loss": round(float(loss), 5), "model": o.model, "batch": size.batch, "steps": o.steps,
                      "precision": o.precision, "threads": o.threads, "jax": jax.__version__}), flush=True)


if __name__ == "__main__":
    main()
