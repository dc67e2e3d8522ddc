#!/usr/bin/env python3
"""gradus and PyTorch train the same models, turn about, each in a process of its own.

    python3 bench/models/run.py [--models bert lora ...] [--rounds 3] [--steps 4] [--threads 2] [--alone]

bert: bert-base of transformers, 8 sequences of 8 to 128 tokens, which it pads; bert-8bit: the same with states of 8
bits in gradus; bert-budget: with AdamW again, and what backward recomputes chosen for 1700 MiB. llama: transformers'
Llama of 15M parameters, 8 texts of 256 tokens; stories: 16 texts of 16 to 256 tokens, which it pads. smollm2: the shape
of SmolLM2 135M, 4 texts of 256 tokens; lora: adapters of rank 16 on all its linear layers, beside peft's and beside all
weights; lora-bf16: the same with frozen weights in bf16; lora-stories: such adapters on 8 texts of 16 to 256 tokens.
resnet: ResNet-18 on 64 images of 32 x 32, in PyTorch with and without channels-last. All in fp32 but lora-bf16, with
AdamW and gradients clipped at norm 1. moe: a GPT whose blocks have 8 experts, of which a token takes 2, beside the GPT
with as many active parameters, both of gradus. torch, transformers and peft are looked for as bench/peers/run.py does.
What comes out: a table, and build/bench/models.json, a list of {name, value, unit, ratio}, where ratio is gradus over
the best peer (of moe: the mixture over its dense twin).
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, find_python, machine, print_table, ratio, run_json, show, versions, write_rows

# name: (what is counted, gradus's program, the peers: name, and flags of torch_models.py or another program of gradus)
MODELS = {
    "bert": ("samples", "bert", {"transformers": ["--model", "bert"]}),
    "bert-8bit": ("samples", "bert_8bit", {"transformers": ["--model", "bert"]}),
    "bert-budget": ("samples", "bert_budget", {"transformers": ["--model", "bert"]}),
    "llama": ("tokens", "llama", {"transformers": ["--model", "llama"]}),
    "stories": ("texts", "stories", {"transformers": ["--model", "stories"]}),
    "lora-stories": ("texts", "lora_stories", {"peft": ["--model", "stories", "--lora", "16"]}),
    "smollm2": ("tokens", "smollm2", {"transformers": ["--model", "smollm2"]}),
    "lora": ("tokens", "lora", {"peft": ["--model", "smollm2", "--lora", "16"], "all weights": "smollm2"}),
    "lora-bf16": ("tokens", "lora_bf16", {"peft": ["--model", "smollm2", "--lora", "16"], "all weights": "smollm2"}),
    "resnet": ("images", "resnet", {"PyTorch": ["--model", "resnet"],
                                    "PyTorch channels-last": ["--model", "resnet", "--channels-last"]}),
    "moe": ("tokens", "moe", {"dense twin": "gpt"}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where gradus is built")
    o = parser.parse_args()
    if o.rounds < 1:
        parser.error("rounds must be positive")
    programs = {MODELS[m][1] for m in o.models}
    programs |= {flags for m in o.models for flags in MODELS[m][2].values() if isinstance(flags, str)}
    done = subprocess.run(["cmake", "--build", str(o.build), "--target", *(f"bench_models_{p}" for p in programs)],
                          stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit("the programs cannot be built: run scripts/bench.sh models")
    packages = ["torch", "transformers"] + ["peft"] * any(m.startswith("lora") for m in o.models)
    python = None if o.alone else find_python(packages)
    common = ["--steps", str(o.steps), "--threads", str(o.threads)]

    def program(name):
        return [str(o.build / "bench" / "models" / f"bench_models_{name}"), *common]

    rows, table = [], []
    for model in o.models:
        counted, name, peers = MODELS[model]
        commands = {"gradus": program(name)}
        for peer, flags in peers.items():
            if isinstance(flags, str):
                commands[peer] = program(flags)
            elif python:
                commands[peer] = [python, str(HERE / "torch_models.py"), *flags, *common]
        results = {side: [] for side in commands}
        for i in range(o.rounds):
            for side, command in commands.items():
                result = run_json(command, o.threads)
                if result:
                    results[side].append(result)
                    print(f"{model} round {i + 1}: {side} {result['per_s']:.2f} {counted}/s, "
                          f"{result['peak_mib']:.0f} MiB", flush=True)
        sides = {side: {key: statistics.median(r[key] for r in found) for key in ("per_s", "peak_mib", "params")}
                 for side, found in results.items() if found}
        others = [s for side, s in sides.items() if side != "gradus"]
        best = {"per_s": max((s["per_s"] for s in others), default=None),
                "peak_mib": min((s["peak_mib"] for s in others), default=None)}
        for side, x in sides.items():
            mine = side == "gradus"
            for key, label, unit in (("per_s", counted, f"{counted}/s"), ("peak_mib", "peak memory", "MiB")):
                rows.append({"name": f"{model} {label}, {side}", "value": x[key], "unit": unit,
                             "ratio": ratio(x[key], best[key]) if mine else None})
            table.append([model, side, show(x["params"] / 1e6, "{:.1f}M"), show(x["per_s"], "{:.2f}") + f" {counted}",
                          show(ratio(x["per_s"], best["per_s"]) if mine else None, "{:.2f}"), show(x["peak_mib"]),
                          show(ratio(x["peak_mib"], best["peak_mib"]) if mine else None, "{:.2f}")])

    named = f"; {', '.join(v for v in versions(python, packages) if v)}" if python else ""
    print(f"\n{machine()}{named}; {o.threads} threads, fp32, medians of {o.rounds} round{'s' if o.rounds > 1 else ''}")
    print_table(["model", "side", "parameters", "a second", "over best peer", "MiB", "MiB over best peer"], table)
    write_rows(rows, "models")


if __name__ == "__main__":
    main()
