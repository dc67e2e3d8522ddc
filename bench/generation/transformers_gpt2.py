#!/usr/bin/env python3
"""Hugging Face's GPT-2 of random parameters writes behind a prompt: the yardstick that bench_generation is held
against.

One line of JSON on standard output: tok_s, tokens a second that are written, all sequences together (from the
difference between writing many and writing two, so that the prompt does not count), prompt_tok_s, peak_mib (VmHWM).
"""
import argparse
import json
import pathlib
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

FEW = 2


def peak_mib():
    for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=("fp32", "bf16_mixed"), default="fp32",
                        help="bf16_mixed: all of it in bf16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config()).to(torch.bfloat16 if o.precision == "bf16_mixed" else torch.float32).eval()
    ids = torch.randint(0, 50257, (o.batch, o.prompt))

    def write(count):
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                           min_new_tokens=count, pad_token_id=50256, eos_token_id=None, use_cache=True)
        return time.perf_counter() - start

    write(FEW + 1)
    few = write(FEW)
    many = write(FEW + o.tokens)
    with torch.inference_mode():
        start = time.perf_counter()
        model(ids, use_cache=True)
        reading = time.perf_counter() - start
    print(json.dumps({"tok_s": o.batch * o.tokens / (many - few), "prompt_tok_s": o.batch * o.prompt / reading,
                      "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
