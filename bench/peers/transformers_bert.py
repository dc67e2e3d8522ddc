#!/usr/bin/env python3
"""BERT with a classifier, trained by transformers and by gradus on the same kind of batches: bert-base, 8 sequences of
up to 128 tokens with padding, dropout 0.1, fp32, AdamW and clipping at 1, as transformers' Trainer does a step. Prints
samples a second (of the median step) and the process's peak memory of both, in turns.

    transformers_bert.py PROGRAM [--rounds N] [--steps N] [--threads N] [--precision bf16_mixed]

PROGRAM is bench_peers_bert, of bench/peers/bert.cpp. With --alone, transformers alone: one line of JSON.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

BATCH, LENGTH, WARMUP = 8, 128, 2


def status_mib(key):
    """A memory figure of this process, such as VmHWM, in MiB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key + ":"))


def alone(o):
    import torch
    from transformers import BertConfig, BertForSequenceClassification
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    model = BertForSequenceClassification(BertConfig(num_labels=2)).train()
    no_decay = ("bias", "LayerNorm.weight")
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith(no_decay)], "weight_decay": 0.0},
              {"params": [p for n, p in model.named_parameters() if not n.endswith(no_decay)], "weight_decay": 0.01}]
    optimizer = torch.optim.AdamW(groups, lr=2e-5, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 1000))
    times = []
    for _ in range(WARMUP + o.steps):
        lengths = torch.randint(LENGTH // 4, LENGTH + 1, (BATCH,))
        lengths[0] = LENGTH
        real = torch.arange(LENGTH) < lengths[:, None]
        batch = {"input_ids": torch.randint(1000, 30522, (BATCH, LENGTH)) * real, "attention_mask": real.long(),
                 "labels": torch.randint(0, 2, (BATCH,))}
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=o.precision == "bf16_mixed"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"samples_s": BATCH / statistics.median(times[WARMUP:]), "peak_mib": status_mib("VmHWM"),
                      "torch": torch.__version__}))


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["fp32", "bf16_mixed"], default="fp32")
    o = parser.parse_args()
    if o.alone:
        alone(o)
        return
    theirs, ours = [], []
    for _ in range(o.rounds):
        theirs.append(run([sys.executable, str(pathlib.Path(__file__).resolve()), "--alone", "--steps", str(o.steps),
                           "--threads", str(o.threads), "--precision", o.precision]))
        ours.append(run([o.program, str(o.steps), str(o.threads), o.precision]))
    for name, runs in (("transformers", theirs), ("gradus", ours)):
        print(f"{name:13s} {max(r['samples_s'] for r in runs):7.2f} samples/s (best of {o.rounds}), "
              f"{max(r['peak_mib'] for r in runs):6.0f} MiB")
    speed = max(r["samples_s"] for r in ours) / max(r["samples_s"] for r in theirs)
    memory = max(r["peak_mib"] for r in ours) / max(r["peak_mib"] for r in theirs)
    print(f"gradus: {speed:.2f} of the samples a second, {memory:.2f} of the memory; {o.precision}, "
          f"torch {theirs[0]['torch']}")


if __name__ == "__main__":
    main()
