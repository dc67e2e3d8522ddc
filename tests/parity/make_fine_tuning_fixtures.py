#!/usr/bin/env python3
"""Records what fine-tuning by PEFT and transformers makes of small models, for tests/parity/fine_tuning_*.cpp: writes
tests/data/fine_tuning.

    pip install torch transformers peft trl datasets
    python3 tests/parity/make_fine_tuning_fixtures.py

The models are those of tests/data/llama_family/qwen2 and tests/data/gpt2. Of adapters of each, a folder in PEFT's
format has them before they are trained; recorded.safetensors has the batches of 50 steps of AdamW, their losses, and
the logits of the first batch after them. Of examples, <model>_examples.safetensors has the documents of 20 updates of
two micro-batches, which of their tokens are targets, and the mean loss of each update's targets; every document is
computed by itself. llama_preferences.safetensors has the pairs of 20 updates of TRL's DPOTrainer on the adapters of the
Llama, whose second matrices begin as zeros, and their losses.
"""
import tempfile

import torch
import transformers
from fixtures import DATA
from peft import LoraConfig, PeftModel, get_peft_model
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


def record_preferences(name, beta=0.3):
    """Words are t0, t1, ...: TRL has to tokenize. An answer ends with the last token of the vocabulary."""
    import datasets
    from tokenizers import Tokenizer, models, pre_tokenizers
    from trl import DPOConfig, DPOTrainer
    torch.manual_seed(3)
    base = load(name)
    model = PeftModel.from_pretrained(base, FOLDER / name, is_trainable=True)
    for parameter_name, parameter in model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.zeros_(parameter)
    length, vocabulary = base.config.max_position_embeddings, base.config.vocab_size
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(vocabulary)}, unk_token="t0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = f"t{vocabulary - 1}"
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token=end, pad_token=end)
    pairs, lengths, tokens, targets = [], [], [], []
    for _ in range(40):
        prompt = torch.randint(vocabulary - 1, (int(torch.randint(1, 6, ())),))
        answers = [torch.randint(vocabulary - 1, (int(torch.randint(1, length - 6, ())),)) for _ in range(2)]
        text = lambda ids: " ".join(f"t{i}" for i in ids.tolist())
        pairs.append({"prompt": text(prompt), "chosen": " " + text(answers[0]), "rejected": " " + text(answers[1])})
        for answer in answers:
            all_tokens = torch.cat([prompt, answer, torch.tensor([vocabulary - 1])])
            lengths.append(len(all_tokens))
            tokens.append(all_tokens)
            targets.append(torch.arange(len(all_tokens)) >= len(prompt))
    losses = []

    class Recorder(DPOTrainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *given, **named):
            loss = super().compute_loss(*given, **named)
            losses.append((loss[0] if isinstance(loss, tuple) else loss).detach())
            return loss

    with tempfile.TemporaryDirectory() as work:
        Recorder(model=model, train_dataset=datasets.Dataset.from_list(pairs), processing_class=words, args=DPOConfig(
            output_dir=work, beta=beta, per_device_train_batch_size=2, max_steps=20, learning_rate=1e-2,
            lr_scheduler_type="constant", adam_beta2=0.95, weight_decay=0.1, max_grad_norm=1.0, use_cpu=True,
            bf16=False, report_to=[], save_strategy="no", gradient_checkpointing=False, max_length=None)).train()
    save_file({"lengths": torch.tensor(lengths, dtype=torch.int32).view(40, 2),
               "tokens": torch.cat(tokens).to(torch.int32), "targets": torch.cat(targets).to(torch.int32),
               "losses": torch.stack(losses), "beta": torch.tensor(beta)},
              FOLDER / f"{name}_preferences.safetensors", MADE_BY)
    print(f"preferences of {name}: loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    for name in MODELS:
        record_adapters(name)
        record_examples(name)
    record_preferences("llama")
