#!/usr/bin/env python3
"""A model of Hugging Face's transformers of random parameters writes behind a prompt: the yardstick that bench_generation is held
against.

One line of JSON on standard output: tok_s, tokens a second that are written, all sequences together (from the
difference between writing many and writing two, so that the prompt does not count), prompt_tok_s, peak_mib (VmHWM).
"""
import argparse
import json
import pathlib
import time

import torch
import transformers

FEW = 2
MODELS = {
    "gpt2": lambda: transformers.GPT2Config(),
    "smollm2": lambda: transformers.LlamaConfig(
        num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, hidden_size=576, intermediate_size=1536,
        vocab_size=49152, max_position_embeddings=1024, tie_word_embeddings=True),
    "qwen2": lambda: transformers.Qwen2Config(
        num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, hidden_size=896, intermediate_size=4864,
        vocab_size=151936, max_position_embeddings=1024, tie_word_embeddings=True),
}


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
    parser.add_argument("--model", choices=tuple(MODELS), default="gpt2")
    parser.add_argument("--save", help="write the model into this folder, and nothing else")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    config = MODELS[o.model]()
    model = transformers.AutoModelForCausalLM.from_config(config)
    model = model.to(torch.bfloat16 if o.precision == "bf16_mixed" else torch.float32).eval()
    if o.save:
        return model.save_pretrained(o.save)
    ids = torch.randint(0, config.vocab_size, (o.batch, o.prompt))

    def write(count):
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                           min_new_tokens=count, pad_token_id=0, eos_token_id=None, use_cache=True)
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
