#!/usr/bin/env python3
"""Writes tests/data/llama/tied and untied: small Llamas of Hugging Face's transformers with random parameters, as
save_pretrained stores them (in bf16; the untied one as several files and an index), and recorded.safetensors, what they
make of random tokens in fp32: logits, a greedy continuation, and the losses of 20 steps of AdamW.

    python3 tests/parity/make_llama_fixtures.py [output directory]
    python3 tests/parity/make_llama_fixtures.py --loss FOLDER TEXT CONTEXT

The second form loads FOLDER, which gpt_convert wrote, and prints the loss that gpt_evaluate should print for the bytes
of TEXT.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT, VOCABULARY, STEPS, BATCH, NEW = 48, 67, 20, 2, 40


def train(model, tokens):
    """The loss of each step, with clipped gradients, and no decay of norms."""
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.ndim >= 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for batch in tokens.long():
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def make(folder, tied, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=96, vocab_size=VOCABULARY, max_position_embeddings=CONTEXT,
                         tie_word_embeddings=tied, bos_token_id=0, eos_token_id=None, rms_norm_eps=1e-5,
                         rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0,
                                          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                          "original_max_position_embeddings": 32})
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((p + torch.randn_like(p) * 0.05).bfloat16())
    model.bfloat16().save_pretrained(folder, max_shard_size="5GB" if tied else "60KB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    model.float()
    for rotary in [m for m in model.modules() if type(m).__name__ == "LlamaRotaryEmbedding"]:  # bfloat16() rounded it
        rotary.__init__(config)
    tokens = torch.randint(0, VOCABULARY, (3, CONTEXT))
    with torch.no_grad():
        logits = model(tokens).logits
        greedy = tokens[:1, :5]
        for _ in range(NEW):
            last = model(greedy).logits[0, -1]
            best = last.topk(2)
            assert best.values[0] - best.values[1] > 1e-3, "another seed: two tokens are the likeliest"
            greedy = torch.cat([greedy, best.indices[:1, None]], 1)
        generated = model.generate(tokens[:1, :5], max_new_tokens=NEW, do_sample=False, pad_token_id=0)
        assert torch.equal(generated, greedy)
    batches = torch.randint(0, VOCABULARY, (STEPS, BATCH, CONTEXT + 1))
    batches[:, :, 1::2] = (batches[:, :, 0:-1:2] * 7 + 3) % VOCABULARY  # something to learn
    losses = train(model, batches)
    print(folder.name, "losses", losses[0].item(), "to", losses[-1].item())
    save_file({"tokens": tokens.int(), "logits": logits.contiguous(), "greedy": greedy.int(),
               "batches": batches.int(), "losses": losses}, folder / "recorded.safetensors")


def print_loss(folder, text, context):
    """Windows of `context` tokens end to end, of which the first sees only itself."""
    model = LlamaForCausalLM.from_pretrained(folder).eval().float()
    tokens = torch.tensor(list(pathlib.Path(text).read_bytes()))
    nats = 0.0
    for at in range(0, len(tokens) - 1, context):
        count = min(context, len(tokens) - 1 - at)
        with torch.no_grad():
            logits = model(tokens[None, at:at + count]).logits[0]
        nats += torch.nn.functional.cross_entropy(logits, tokens[at + 1:at + 1 + count], reduction="sum").item()
    print(f"{nats / (len(tokens) - 1):.4f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loss"]:
        print_loss(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        here = pathlib.Path(__file__).resolve().parent
        folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent / "data" / "llama"
        for name, tied in [("tied", True), ("untied", False)]:
            (folder / name).mkdir(parents=True, exist_ok=True)
            make(folder / name, tied, 5)
