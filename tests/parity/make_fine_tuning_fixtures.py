#!/usr/bin/env python3
"""Records what fine-tuning by PEFT and transformers makes of small models, for tests/parity/fine_tuning_*.cpp: writes
tests/data/fine_tuning.

    pip install torch transformers peft
    python3 tests/parity/make_fine_tuning_fixtures.py

The models are those of tests/data/llama_family/qwen2 and tests/data/gpt2. Of adapters of each, a folder in PEFT's
format has them before they are trained; recorded.safetensors has the batches of 50 steps of AdamW, their losses, and
the logits of the first batch after them. Of examples, <model>_examples.safetensors has the documents of 20 updates of
two micro-batches, which of their tokens are targets, and the mean loss of each update's targets; every document is
computed by itself.
"""
import torch
import transformers
from fixtures import DATA
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

FOLDER = DATA / "fine_tuning"
STEPS, TEXTS = 50, 2
MODELS = {"llama": "llama_family/qwen2", "gpt2": "gpt2"}
ADAPTERS = {
    "llama": {"r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]},
    "gpt2": {"r": 2, "lora_alpha": 3, "use_rslora": True, "fan_in_fan_out": True,
             "target_modules": ["c_attn", "mlp.c_proj"]},
}
MADE_BY = {"made_by": f"torch {torch.__version__}, transformers {transformers.__version__}"}


def load(name):
    return transformers.AutoModelForCausalLM.from_pretrained(DATA / MODELS[name], dtype=torch.float32,
                                                             attn_implementation="eager").eval()  # no dropout


def optimizer_of(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0}]
    return trained, torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))


def record_adapters(name):
    torch.manual_seed(len(name))
    model = get_peft_model(load(name), LoraConfig(task_type="CAUSAL_LM", **ADAPTERS[name])).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.normal_(std=0.05)
    model.peft_config["default"].base_model_name_or_path = f"../../{MODELS[name]}"
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "README.md").unlink()
    length, tokens = model.config.max_position_embeddings, model.config.vocab_size
    batches = torch.randint(tokens, (STEPS, TEXTS, length + 1))
    trained, optimizer = optimizer_of(model)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = cross_entropy(model(batch[:, :-1]).logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.detach())
    with torch.no_grad():
        logits = model(batches[0, :, :-1]).logits
    save_file({"batches": batches.to(torch.int32), "losses": torch.stack(losses), "logits": logits.contiguous()},
              FOLDER / name / "recorded.safetensors", MADE_BY)
    print(f"adapters of {name}: loss {losses[0]:.4f} to {losses[-1]:.4f}")


def record_examples(name):
    torch.manual_seed(7 + len(name))
    model = load(name)
    length, vocabulary = model.config.max_position_embeddings, model.config.vocab_size
    trained, optimizer = optimizer_of(model)
    lengths, tokens, targets, losses = [], [], [], []
    for _ in range(20):
        optimizer.zero_grad()
        documents, count, total = [], 0, 0.0
        for micro_batch in range(2):
            sizes = torch.randint(2, length + 2, (3,)).tolist()  # tokens of each document
            lengths.append(sizes)
            for size in sizes:
                text = torch.randint(vocabulary, (size,))
                share = 0.9 if micro_batch == 0 else 0.3  # micro-batches have unequal numbers of targets
                target = torch.rand(size) < share
                target[-1] = True
                documents.append((text, target))
                tokens.append(text)
                targets.append(target)
                count += int(target[1:].sum())
        for text, target in documents:
            wanted = torch.where(target[1:], text[1:], -1)
            total = total + cross_entropy(model(text[None, :-1]).logits[0], wanted, ignore_index=-1, reduction="sum")
        loss = total / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.detach())
    save_file({"lengths": torch.tensor(lengths, dtype=torch.int32).view(20, 2, 3),
               "tokens": torch.cat(tokens).to(torch.int32), "targets": torch.cat(targets).to(torch.int32),
               "losses": torch.stack(losses)}, FOLDER / f"{name}_examples.safetensors", MADE_BY)
    print(f"examples of {name}: loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    for name in MODELS:
        record_adapters(name)
        record_examples(name)
