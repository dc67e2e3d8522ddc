#!/usr/bin/env python3
"""Writes small models of Hugging Face's transformers with random parameters, as save_pretrained stores them, and what
they make of random tokens in fp32.

    python3 tests/parity/make_model_fixtures.py [output directory]
    python3 tests/parity/make_model_fixtures.py --compare FOLDER RECORDED.safetensors
    python3 tests/parity/make_model_fixtures.py --loss FOLDER TEXT CONTEXT

gpt2                A GPT-2; logits.safetensors: tokens and logits.
bert                A BertForSequenceClassification; steps.safetensors: batches of tokens, segments and padding, the
                    logits of the first, and the losses of training steps on all of them.
llama/tied, untied  Llamas in bf16, the untied one as several files and an index; recorded.safetensors: logits, a greedy
                    continuation, and the losses of training steps.

The second form loads FOLDER, which gpt_convert or save_huggingface wrote, and prints the largest difference to the
file's logits. The third prints the loss that gpt_evaluate should print for FOLDER, a Llama, and the bytes of TEXT.
"""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

from fixtures import DATA, by_rank, train

STEPS = 20


def randomised(kind, config, seed, noise):
    """A model whose biases and norms are random, too."""
    torch.manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * noise)
    return model


def store(model, folder, **options):
    model.save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)


def arguments(data, step):
    """What a BERT takes: `lengths` are tokens that are no padding."""
    tokens, lengths = data["tokens"][step].long(), data["lengths"][step].long()
    return {"input_ids": tokens, "token_type_ids": data["segments"][step].long(),
            "attention_mask": (torch.arange(tokens.shape[-1]) < lengths[:, None]).long()}


def logits_of(model, data):
    with torch.no_grad():
        inputs = arguments(data, 0) if "segments" in data else {"input_ids": data["tokens"].long()}
        return model.eval()(**inputs).logits.contiguous()


def gpt2(folder):
    config = transformers.GPT2Config(n_layer=2, n_head=3, n_embd=21, n_positions=13, n_ctx=13, vocab_size=61,
                                     bos_token_id=60, eos_token_id=60)
    model = randomised(transformers.GPT2LMHeadModel, config, 11, 0.2)
    store(model, folder)
    data = {"tokens": torch.randint(0, 61, (3, 13), dtype=torch.int32)}
    save_file({**data, "logits": logits_of(model, data)}, folder / "logits.safetensors")


def bert(folder):
    batch, time, labels = 4, 13, 3
    config = transformers.BertConfig(
        num_hidden_layers=2, num_attention_heads=4, hidden_size=32, intermediate_size=72, max_position_embeddings=16,
        vocab_size=61, type_vocab_size=2, num_labels=labels, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = randomised(transformers.BertForSequenceClassification, config, 11, 0.1)
    store(model, folder)
    lengths = torch.randint(3, time + 1, (STEPS, batch), dtype=torch.int32)
    lengths[0] = torch.tensor([13, 5, 1, 9])
    real = torch.arange(time) < lengths[..., None]
    second = (torch.arange(time) >= lengths[..., None] // 2) & real
    data = {"tokens": torch.randint(1, 61, (STEPS, batch, time), dtype=torch.int32) * real,
            "segments": second.to(torch.uint8), "lengths": lengths,
            "labels": torch.randint(0, labels, (STEPS, batch), dtype=torch.int32)}
    data["logits"] = logits_of(model, data)
    model.train()
    optimizer = torch.optim.AdamW(by_rank(model.parameters(), 0.01), lr=1e-3)
    data["losses"], data["norms"] = train(model.parameters(), optimizer, lambda step: model(
        **arguments(data, step), labels=data["labels"][step].long()).loss, STEPS)
    save_file(data, folder / "steps.safetensors")


def llama(folder, tied):
    context, vocabulary, new = 48, 67, 40
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
        vocab_size=vocabulary, max_position_embeddings=context, tie_word_embeddings=tied, bos_token_id=0,
        eos_token_id=None, rms_norm_eps=1e-5, rope_parameters={
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
    model = randomised(transformers.LlamaForCausalLM, config, 5, 0.05).bfloat16()
    store(model, folder, max_shard_size="5GB" if tied else "60KB")
    model.float()
    for rotary in [m for m in model.modules() if type(m).__name__ == "LlamaRotaryEmbedding"]:  # bfloat16() rounded it
        rotary.__init__(config)
    tokens = torch.randint(0, vocabulary, (3, context))
    logits, greedy = logits_of(model, {"tokens": tokens}), tokens[:1, :5]
    for _ in range(new):
        best = logits_of(model, {"tokens": greedy})[0, -1].topk(2)
        assert best.values[0] - best.values[1] > 1e-3, "another seed: two tokens are the likeliest"
        greedy = torch.cat([greedy, best.indices[:1, None]], 1)
    generated = model.generate(tokens[:1, :5], max_new_tokens=new, do_sample=False, pad_token_id=0)
    assert torch.equal(generated, greedy)
    batches = torch.randint(0, vocabulary, (STEPS, 2, context + 1))
    batches[:, :, 1::2] = (batches[:, :, 0:-1:2] * 7 + 3) % vocabulary  # something to learn
    optimizer = torch.optim.AdamW(by_rank(model.parameters(), 0.1), lr=1e-3, betas=(0.9, 0.95))
    losses, _ = train(model.parameters(), optimizer, lambda step: F.cross_entropy(
        model(batches[step, :, :-1]).logits.flatten(0, 1), batches[step, :, 1:].flatten()), STEPS)
    save_file({"tokens": tokens.int(), "logits": logits, "greedy": greedy.int(), "batches": batches.int(),
               "losses": losses}, folder / "recorded.safetensors")


def compare(folder, file):
    recorded = load_file(file)
    kind = getattr(transformers, transformers.AutoConfig.from_pretrained(folder).architectures[0])
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    print({key: list(value) for key, value in report.items() if value})
    logits = recorded["logits"].float()
    difference = (logits_of(model.float(), recorded) - logits).abs().max().item()
    print(f"largest difference of a logit: {difference:.3g}; largest logit {logits.abs().max().item():.3g}")


def print_loss(folder, text, context):
    """Windows of `context` tokens end to end, of which the first sees only itself."""
    model = transformers.LlamaForCausalLM.from_pretrained(folder).eval().float()
    tokens = torch.tensor(list(Path(text).read_bytes()))
    nats = 0.0
    for inputs, goals in zip(tokens[:-1].split(context), tokens[1:].split(context)):
        nats += F.cross_entropy(logits_of(model, {"tokens": inputs[None]})[0], goals, reduction="sum").item()
    print(f"{nats / (len(tokens) - 1):.4f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--loss"]:
        print_loss(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        out = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
        gpt2(out / "gpt2")
        bert(out / "bert")
        llama(out / "llama/tied", True)
        llama(out / "llama/untied", False)
