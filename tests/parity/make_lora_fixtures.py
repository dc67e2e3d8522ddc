#!/usr/bin/env python3
"""Records what Hugging Face's PEFT makes of adapters, for tests/parity/lora.cpp: writes tests/data/lora.

    pip install torch transformers peft
    python3 tests/parity/make_lora_fixtures.py

The models are those of tests/data/llama_family/qwen2 and tests/data/gpt2. Of each, a folder in PEFT's format has the
adapters before they are trained; recorded.safetensors has the batches of 50 steps of AdamW, their losses, and the
logits of the first batch after them.
"""
import torch
import transformers
from fixtures import DATA
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

STEPS, TEXTS = 50, 2
CASES = {
    "llama": ("llama_family/qwen2", {"r": 3, "lora_alpha": 5, "target_modules": [
        "q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]}),
    "gpt2": ("gpt2", {"r": 2, "lora_alpha": 3, "use_rslora": True, "fan_in_fan_out": True, "target_modules": [
        "c_attn", "mlp.c_proj"]}),
}


def record(name, base, settings):
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_pretrained(DATA / base, dtype=torch.float32,
                                                              attn_implementation="eager")
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings)).eval()  # no dropout
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.normal_(std=0.05)
    folder = DATA / "lora" / name
    model.peft_config["default"].base_model_name_or_path = f"../../{base}"
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    length, tokens = model.config.max_position_embeddings, model.config.vocab_size
    batches = torch.randint(tokens, (STEPS, TEXTS, length + 1))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.detach())
    with torch.no_grad():
        logits = model(batches[0, :, :-1]).logits
    made_by = f"torch {torch.__version__}, transformers {transformers.__version__}"
    save_file({"batches": batches.to(torch.int32), "losses": torch.stack(losses), "logits": logits.contiguous()},
              folder / "recorded.safetensors", {"made_by": made_by})
    print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    for name, (base, settings) in CASES.items():
        record(name, base, settings)
