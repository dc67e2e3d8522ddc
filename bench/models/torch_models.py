#!/usr/bin/env python3
"""One training run of PyTorch on the CPU, timed: the peer of bench_models_<model>.

The models are transformers' BertForSequenceClassification and LlamaForCausalLM, also with peft's adapters, and a
ResNet-18 for images of 32 x 32 (He et al. 2015; the first convolution is 3 x 3, without pooling), written here. Each is
trained with fused AdamW for a few steps on random data, without dropout. The result is one line of JSON on standard
output:

  per_s               samples (tokens of llama and smollm2) a second, from the median step
  step_ms             the median step
  peak_mib            the most memory that this process ever held (VmHWM)
  peak_over_base_mib  the same, less what it held just before the model was made
  params, loss, and the flags
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def status_mib(key):
    """A memory figure of this process, such as VmHWM or VmRSS, in MiB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = None
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet18(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        blocks, inside = [], 64
        for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(inside, outside, stride), Block(outside, outside, 1)]
            inside = outside
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.conv(x))))
        return self.head(x.mean((2, 3)))


def bert(o):
    """bert-base, 8 sequences of 8 to 128 tokens, padded."""
    from transformers import BertConfig, BertForSequenceClassification
    model = BertForSequenceClassification(BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0))
    batch, time_steps = o.batch or 8, 128
    ids = torch.randint(0, 30522, (batch, time_steps))
    lengths = torch.tensor([time_steps - 120 * i // max(batch - 1, 1) for i in range(batch)])
    mask = (torch.arange(time_steps) < lengths[:, None]).long()
    labels = torch.randint(0, 2, (batch,))
    return model, lambda run: run(input_ids=ids, attention_mask=mask, labels=labels).loss, batch


def text_loss(inputs, targets, mask=None):
    """The mean cross-entropy of next tokens, over targets that are not -100."""
    def loss(run):
        logits = run(input_ids=inputs, attention_mask=mask).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return loss


def llama_of(**sizes):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(tie_word_embeddings=True, use_cache=False, **sizes))


def small_llama():
    return llama_of(vocab_size=32000, hidden_size=288, intermediate_size=768, num_hidden_layers=6,
                    num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=256)


def llama(o):
    """A Llama of 15M parameters, 8 texts of 256 tokens; counted in tokens."""
    model = small_llama()
    batch = o.batch or 8
    text = torch.randint(0, 32000, (batch, 257))
    return model, text_loss(text[:, :-1].contiguous(), text[:, 1:].contiguous()), batch * 256


def stories(o):
    """16 texts of 16 to 256 tokens, padded, for the Llama of 15M; with --lora 8, for the shape of SmolLM2. In texts."""
    model = smollm2_model(o) if o.lora else small_llama()
    batch = o.batch or (8 if o.lora else 16)
    text = torch.randint(0, 32000, (batch, 257))
    lengths = torch.tensor([256 - 240 * i // max(batch - 1, 1) for i in range(batch)])
    there = torch.arange(256) < lengths[:, None]
    targets = torch.where(there, text[:, 1:], -100)
    return model, text_loss(text[:, :-1].contiguous(), targets, there.long()), batch


def smollm2_model(o):
    model = llama_of(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                     num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=2048)
    if o.lora:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=o.lora, lora_alpha=2 * o.lora, target_modules="all-linear",
                                                 task_type="CAUSAL_LM"))
    return model


def smollm2(o):
    """The shape of SmolLM2 135M, 4 texts of 256 tokens, all weights or adapters (--lora); counted in tokens."""
    model = smollm2_model(o)
    batch = o.batch or 4
    text = torch.randint(0, 49152, (batch, 257))
    return model, text_loss(text[:, :-1].contiguous(), text[:, 1:].contiguous()), batch * 256


def resnet(o):
    """ResNet-18, 64 images of 32 x 32."""
    model = ResNet18()
    batch = o.batch or 64
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    if o.channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    return model, lambda run: F.cross_entropy(run(images), labels), batch


MODELS = {"bert": bert, "llama": llama, "stories": stories, "smollm2": smollm2, "resnet": resnet}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, default=0, help="samples a step (default: the model's own)")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lora", type=int, default=0, help="rank of peft's adapters, of smollm2 and stories")
    parser.add_argument("--compile", action="store_true", help="run the model through torch.compile")
    parser.add_argument("--channels-last", action="store_true", help="images as [batch, height, width, channels]")
    o = parser.parse_args()
    if o.steps < 1 or o.warmup < 0 or o.threads < 1 or o.batch < 0:
        parser.error("steps and threads must be positive, warmup and batch not negative")
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    base = status_mib("VmRSS")
    model, loss_of, count = MODELS[o.model](o)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.1, fused=True)
    run = torch.compile(model) if o.compile else model

    def step():
        loss = loss_of(run)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    times = []
    for i in range(o.warmup + o.steps):
        begin = time.perf_counter()
        loss = step()
        if i >= o.warmup:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    peak = status_mib("VmHWM")
    print(json.dumps({"per_s": round(count / median, 2), "step_ms": round(median * 1e3, 2), "peak_mib": round(peak),
                      "peak_over_base_mib": round(peak - base),
                      "params": sum(p.numel() for p in model.parameters()), "loss": round(loss, 5),
                      "model": o.model, "threads": o.threads, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
