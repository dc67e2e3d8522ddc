#!/usr/bin/env python3
"""Writes tests/data/gpt2: a small GPT-2 of Hugging Face's transformers with random parameters, as save_pretrained
stores it, and logits.safetensors, what it makes of random tokens. And compares a folder that gpt_convert wrote.

    python3 tests/parity/make_gpt2_fixture.py [output directory]
    python3 tests/parity/make_gpt2_fixture.py --compare FOLDER LOGITS.safetensors

The second form loads FOLDER by transformers and prints the largest difference to the file's logits of its tokens.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel


def logits_of(model, tokens):
    with torch.no_grad():
        return model(tokens.long()).logits


def make(folder):
    torch.manual_seed(11)
    config = GPT2Config(n_layer=2, n_head=3, n_embd=21, n_positions=13, n_ctx=13, vocab_size=61,
                        bos_token_id=60, eos_token_id=60)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # biases and norms, too
            p.add_(torch.randn_like(p) * 0.2)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(0, 61, (3, 13), dtype=torch.int32)
    save_file({"tokens": tokens, "logits": logits_of(model, tokens).contiguous()}, folder / "logits.safetensors")


def compare(folder, file):
    recorded = load_file(file)
    model, report = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    print({key: list(value) for key, value in report.items() if value})
    difference = (logits_of(model.eval().float(), recorded["tokens"]) - recorded["logits"].float()).abs().max().item()
    print(f"largest difference of a logit: {difference:.3g}; largest logit {recorded['logits'].abs().max().item():.3g}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(*sys.argv[2:4])
    else:
        here = pathlib.Path(__file__).resolve().parent
        folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent / "data" / "gpt2"
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
