#!/usr/bin/env python3
"""Writes tests/data/bert: a small BertForSequenceClassification of Hugging Face's transformers with random parameters,
as save_pretrained stores it, and steps.safetensors: batches of random tokens, segments and padding, what it makes of
the first, and the losses of training steps on all of them. And compares a folder that save_huggingface wrote.

    python3 tests/parity/make_bert_fixtures.py [output directory]
    python3 tests/parity/make_bert_fixtures.py --compare FOLDER STEPS.safetensors

The second form loads FOLDER by transformers and prints the largest difference to the file's logits.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

STEPS, BATCH, TIME, LABELS = 20, 4, 13, 3


def arguments(data, step):
    """What model(...) takes: `lengths` are tokens that are no padding."""
    lengths = data["lengths"][step].long()
    return {"input_ids": data["tokens"][step].long(), "token_type_ids": data["segments"][step].long(),
            "attention_mask": (torch.arange(TIME) < lengths[:, None]).long()}


def logits_of(model, data):
    with torch.no_grad():
        return model.eval()(**arguments(data, 0)).logits


def make(folder):
    torch.manual_seed(11)
    config = BertConfig(num_hidden_layers=2, num_attention_heads=4, hidden_size=32, intermediate_size=72,
                        max_position_embeddings=16, vocab_size=61, type_vocab_size=2, num_labels=LABELS,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for p in model.parameters():  # biases and norms, too
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    lengths = torch.randint(3, TIME + 1, (STEPS, BATCH), dtype=torch.int32)
    lengths[0] = torch.tensor([13, 5, 1, 9])
    real = torch.arange(TIME) < lengths[..., None]
    second = (torch.arange(TIME) >= lengths[..., None] // 2) & real
    data = {"tokens": torch.randint(1, 61, (STEPS, BATCH, TIME), dtype=torch.int32) * real,
            "segments": second.to(torch.uint8), "lengths": lengths,
            "labels": torch.randint(0, LABELS, (STEPS, BATCH), dtype=torch.int32)}
    data["logits"] = logits_of(model, data).contiguous()

    # As our adamw does: weight decay on matrices alone.
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                                   {"params": vectors, "weight_decay": 0.0}], lr=1e-3)
    model.train()
    losses, norms = [], []
    for step in range(STEPS):
        loss = model(**arguments(data, step), labels=data["labels"][step].long()).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    data["losses"], data["norms"] = torch.stack(losses), torch.stack(norms)
    save_file(data, folder / "steps.safetensors")


def compare(folder, file):
    recorded = load_file(file)
    model, report = BertForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    print({key: list(value) for key, value in report.items() if value})
    difference = (logits_of(model.float(), recorded) - recorded["logits"]).abs().max().item()
    print(f"largest difference of a logit: {difference:.3g}; largest logit {recorded['logits'].abs().max().item():.3g}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(*sys.argv[2:4])
    else:
        here = pathlib.Path(__file__).resolve().parent
        folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent / "data" / "bert"
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
