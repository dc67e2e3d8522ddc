#!/usr/bin/env python3
"""Writes small encoders of Hugging Face's transformers with random parameters, one of each family, and what they make
of random tokens in fp32.

    python3 tests/parity/make_encoder_fixtures.py [output directory]
    python3 tests/parity/make_encoder_fixtures.py --compare FOLDER RECORDED.safetensors

Each folder is as save_pretrained stores it; steps.safetensors has batches of tokens, segments, padding and labels or
scores, the logits or sentence embeddings of the first batch, the gradients of its loss, and the losses of training
steps on all of them. The second form loads FOLDER, which save_huggingface wrote, and prints the largest difference to
the recorded logits or embeddings.
"""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

from fixtures import DATA, by_rank, train
from make_model_fixtures import STEPS, randomised, store

BATCH, TIME, SCALE = 4, 9, 20
BERT = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 22,
        "vocab_size": 41, "max_position_embeddings": 17, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0}
DISTILBERT = {"n_layers": 2, "n_heads": 2, "dim": 14, "hidden_dim": 18, "vocab_size": 41,
              "max_position_embeddings": 9, "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0,
              "activation": "relu"}
# Folder: family, task, options of its config.
FAMILIES = {
    "roberta": ("Roberta", "classes", {**BERT, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "num_labels": 3}),
    "xlm_roberta": ("XLMRoberta", "regression", {**BERT, "type_vocab_size": 1, "layer_norm_eps": 3e-3,
                                                 "pad_token_id": 3, "num_labels": 1, "hidden_act": "silu"}),
    "distilbert": ("DistilBert", "classes", {**DISTILBERT, "num_labels": 2}),
    "albert": ("Albert", "classes", {**BERT, "embedding_size": 7, "hidden_act": "gelu_new", "num_labels": 3,
                                     "classifier_dropout_prob": 0.0}),
    "mean": ("Bert", "cosine", BERT),
    "cls": ("Roberta", "contrastive", {**BERT, "type_vocab_size": 1}),
}


def arguments(model, data, step):
    tokens, lengths = data["tokens"][step].long(), data["lengths"][step].long()
    inputs = {"input_ids": tokens, "attention_mask": (torch.arange(tokens.shape[-1]) < lengths[:, None]).long()}
    if getattr(model.config, "type_vocab_size", 1) > 1:
        inputs["token_type_ids"] = data["segments"][step].long()
    return inputs


def output_of(model, task, data, step):
    """Logits, or sentence embeddings as sentence-transformers makes them."""
    inputs = arguments(model, data, step)
    if task in ("classes", "regression"):
        return model(**inputs).logits
    hidden = model(**inputs).last_hidden_state
    if task == "contrastive":
        return hidden[:, 0]
    mask = inputs["attention_mask"][..., None].float()
    return (hidden * mask).sum(1) / mask.sum(1)


def loss_of(model, task, data, step):
    output = output_of(model, task, data, step)
    if task == "classes":
        return F.cross_entropy(output, data["labels"][step].long())
    if task == "regression":
        return F.mse_loss(output.squeeze(-1), data["scores"][step])
    first, second = output.split(BATCH)
    if task == "cosine":
        return F.mse_loss(F.cosine_similarity(first, second), data["scores"][step])
    scores = F.cosine_similarity(first[:, None], second[None], dim=-1) * SCALE
    return F.cross_entropy(scores, data["labels"][step].long())


def family(folder, name, task, options, seed):
    has_head = task in ("classes", "regression")
    kind = getattr(transformers, name + ("ForSequenceClassification" if has_head else "Model"))
    config = getattr(transformers, name + "Config")(**options)
    model = randomised(kind, config, seed, 0.1)
    store(model, folder)
    rows = BATCH if has_head else 2 * BATCH
    lengths = torch.randint(2, TIME + 1, (STEPS, rows), dtype=torch.int32)
    lengths[0, :4] = torch.tensor([TIME, 5, 1, 7])
    real = torch.arange(TIME) < lengths[..., None]
    second = (torch.arange(TIME) >= lengths[..., None] // 2) & real
    tokens = torch.randint(4, config.vocab_size, (STEPS, rows, TIME), dtype=torch.int32)
    data = {"tokens": torch.where(real, tokens, config.pad_token_id), "lengths": lengths,
            "segments": (second if getattr(config, "type_vocab_size", 1) > 1 else second & False).to(torch.uint8)}
    if task == "classes":
        data["labels"] = torch.randint(0, config.num_labels, (STEPS, BATCH), dtype=torch.int32)
    elif task == "contrastive":
        data["labels"] = torch.arange(BATCH, dtype=torch.int32).repeat(STEPS, 1)
    else:
        data["scores"] = torch.rand(STEPS, BATCH)
    model.eval()
    with torch.no_grad():
        data["output"] = output_of(model, task, data, 0).contiguous()
    model.train()
    loss_of(model, task, data, 0).backward()
    parameters = {key: p for key, p in model.named_parameters() if p.grad is not None}  # the others are not used
    data |= {f"gradient.{key}": p.grad.contiguous() for key, p in parameters.items()}
    optimizer = torch.optim.AdamW(by_rank(parameters.values(), 0.01), lr=1e-3)
    data["losses"], _ = train(parameters.values(), optimizer, lambda step: loss_of(model, task, data, step), STEPS)
    save_file(data, folder / "steps.safetensors")


def compare(folder, file):
    recorded = load_file(file)
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    print({key: list(value) for key, value in report.items() if value})
    task = next(task for name, (_, task, _) in FAMILIES.items() if name == Path(file).parent.name)
    with torch.no_grad():
        difference = (output_of(model.float().eval(), task, recorded, 0) - recorded["output"]).abs().max().item()
    print(f"{config.architectures[0]}: largest difference {difference:.3g}; "
          f"largest number {recorded['output'].abs().max().item():.3g}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(*sys.argv[2:4])
    else:
        out = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "encoders"
        for number, (key, row) in enumerate(FAMILIES.items()):
            family(out / key, *row, 17 + number)
