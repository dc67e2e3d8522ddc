#!/usr/bin/env python3
"""One training run of Hugging Face's LlamaForCausalLM, timed, as torch_gpt.py times a GPT: the same flags, the same work
(random tokens, fused AdamW, gradients clipped at 1, no dropout) and the same line of JSON.
"""
import argparse
import contextlib
import json
import statistics
import time

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

from torch_gpt import status_mib

SIZES = {  # layers, width, heads, heads of keys, hidden, context, vocabulary, batch
    "llama-15m": (6, 288, 6, 6, 768, 256, 32000, 8),
}


def time_training(o):
    layers, width, heads, kv_heads, hidden, context, vocabulary, batch = SIZES[o.model]
    torch.manual_seed(1)
    base = status_mib("VmRSS")
    config = LlamaConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
                         num_key_value_heads=kv_heads, intermediate_size=hidden, vocab_size=vocabulary,
                         max_position_embeddings=context, tie_word_embeddings=True, use_cache=False,
                         attn_implementation="sdpa")
    model = LlamaForCausalLM(config).train()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    run = torch.compile(model) if o.compile else model
    text = torch.randint(0, vocabulary, (batch, context + 1))
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def step():
        lower = torch.autocast("cpu", dtype=torch.bfloat16) if o.precision == "bf16_mixed" else contextlib.nullcontext()
        with lower:
            loss = run(input_ids=tokens, labels=tokens, shift_labels=targets).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(o.warmup):
        step()
    times = []
    for _ in range(o.steps):
        begin = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    peak = status_mib("VmHWM")
    return {"tok_s": round(batch * context / median, 1), "step_ms": round(median * 1e3, 2), "peak_mib": round(peak),
            "peak_over_base_mib": round(peak - base), "params": sum(p.numel() for p in model.parameters()),
            "loss": round(loss, 5)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SIZES, default="llama-15m")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16_mixed"), default="fp32", help="bf16_mixed: autocast")
    parser.add_argument("--compile", action="store_true", help="run the model through torch.compile")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    if o.steps < 1 or o.warmup < 0 or o.threads < 1:
        parser.error("steps and threads must be positive, warmup not negative")
    torch.set_num_threads(o.threads)
    print(json.dumps({**time_training(o), "model": o.model, "steps": o.steps, "precision": o.precision,
                      "compile": o.compile, "threads": o.threads, "torch": torch.__version__,
                      "transformers": transformers.__version__}), flush=True)


if __name__ == "__main__":
    main()
