#!/usr/bin/env python3
"""Ways to fine-tune the shapes of small open models at 1,024 tokens: the memory that is planned, and a step's time.

    python3 bench/fine-tuning/run.py [--shapes smollm2 qwen2 llama3] [--steps 2] [--threads 2] [--plans]

All weights in fp32 and in bf16_mixed, the latter with 8-bit AdamW, too; adapters of rank 16 on all linear layers beside
frozen weights in bf16; these with each block computed again in backward; and with the frozen weights in 8 bits. Random
weights and tokens. A program whose plan is larger than the machine's memory is not run; with --plans, none is. What
comes out: a table, and build/bench/fine-tuning.json, a list of {name, value, unit, ratio}, where ratio is that over
fp32.
"""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, machine, print_table, ratio, run_json, show, write_rows

SHAPES = {"smollm2": "SmolLM2 135M", "qwen2": "Qwen 2.5 0.5B", "llama3": "Llama 3.2 1B"}
WAYS = {"fp32": "all weights, fp32", "bf16": "all weights, bf16_mixed", "8bit": "the same, 8-bit AdamW",
        "lora": "LoRA 16", "lora_blocks": "the same, checkpointing", "lora_blocks_int8": "the same, 8-bit base"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plans", action="store_true", help="measure nothing")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where gradus is built")
    o = parser.parse_args()
    names = {(shape, way): f"bench_fine_tuning_{shape}_{way}" for shape in o.shapes for way in WAYS}
    if subprocess.run(["cmake", "--build", str(o.build), "--target", *names.values()], stdout=subprocess.DEVNULL,
                      check=False).returncode:
        sys.exit("the programs cannot be built: run scripts/bench.sh fine-tuning")
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2 ** 20
    rows, table = [], []
    for shape in o.shapes:
        first = {}
        for way, described in WAYS.items():
            program = str(o.build / "bench" / "fine-tuning" / names[shape, way])
            plan = run_json([program, "--plan", "1"], o.threads)
            runs = plan and not o.plans and plan["planned_mib"] < 0.9 * memory_mib
            step = runs and run_json([program, "--steps", str(o.steps), "--threads", str(o.threads)], o.threads)
            mib, seconds = plan["planned_mib"] if plan else None, step["step_ms"] / 1e3 if step else None
            first = first or {"mib": mib, "seconds": seconds}
            for key, value, unit in (("planned", mib, "MiB"), ("a step", seconds, "s")):
                base = first["mib" if unit == "MiB" else "seconds"]
                rows.append({"name": f"{SHAPES[shape]}, {described}: {key}", "value": value, "unit": unit,
                             "ratio": ratio(value, base)})
            table.append([SHAPES[shape], described, str(plan["planned_bytes"]) if plan else show(None),
                          show(ratio(mib, first["mib"]), "{:.2f}"), show(seconds, "{:.1f}"),
                          show(ratio(seconds, first["seconds"]), "{:.2f}")])
            print(*table[-1], flush=True)
    print(f"\n{machine()}; {o.threads} threads, medians of {o.steps} steps")
    print_table(["shape", "way", "planned bytes", "of fp32", "seconds a step", "of fp32"], table)
    write_rows(rows, "fine-tuning")


if __name__ == "__main__":
    main()
