#!/usr/bin/env python3
"""Training techniques on BERT: the rows of the guide that trains BERT-large on a V100 of 16 GB.

    scripts/bench.sh bert [--steps N] [--threads N] [--plans]

Two tables. Plans of BERT-large at 512 tokens: the bytes of a training step, planned exactly by running it on the device
that computes nothing, beside the guide's megabytes. Steps of bert-base at 128 tokens on this machine: samples a second
(of the median step), the planned peak and the process's. Each row is a process of its own. --plans: the first only.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "support"))
import peers  # noqa: E402

PROGRAMS = ROOT / "build/release/bench/bert"
MB = 1e6


def lines(*command):
    text = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--plans", action="store_true", help="the plans only")
    o = parser.parse_args()

    plans = lines(PROGRAMS / "bench_bert_plans")
    first, rows, table = plans[0], [], []
    for p in plans:
        guide = p["guide_mb"] or None
        rows.append({"name": f"bert-large/{p['row']}", "value": p["peak"], "unit": "bytes",
                     "ratio": p["peak"] / first["peak"], "persistent": p["persistent"], "workspace": p["workspace"]})
        table.append([p["row"], f"{p['persistent']:,}", f"{p['peak']:,}", f"{p['peak'] / first['peak']:.2f}",
                      peers.show(guide), peers.show(peers.ratio(guide, first["guide_mb"]), "{:.2f}"),
                      peers.show(p["guide_samples_s"] or None, "{:.2f}")])
    print("BERT-large, 512 tokens: a step, planned")
    peers.print_table(["row", "parameters and states, bytes", "step's peak, bytes", "of the first", "guide, MB",
                       "of the first", "guide, samples/s"], table, left=1)

    if not o.plans:
        table, base = [], None
        for number, p in enumerate(plans):
            m = lines(PROGRAMS / "bench_bert_steps", number, o.steps, o.threads)[0]
            base = base or m
            share = {key: f"{m[key] / base[key]:.2f}" for key in ("samples_s", "processor_ms", "planned")}
            rows.append({"name": f"bert-base/{p['row']}", "value": m["samples_s"], "unit": "samples/s",
                         "ratio": m["samples_s"] / base["samples_s"], "processor_ms": m["processor_ms"],
                         "planned": m["planned"], "process": m["process"]})
            table.append([p["row"], f"{m['samples_s']:.2f}", share["samples_s"], f"{m['processor_ms']:.0f}",
                          share["processor_ms"], f"{m['planned'] / MB:.0f}", share["planned"],
                          f"{m['process'] / MB:.0f}", f"{m['loss']:.4f}"])
        print("\nbert-base, 128 tokens: a step of 4 samples on this machine")
        peers.print_table(["row", "samples/s", "of the first", "processor, ms", "of the first",
                           "step's peak, MB", "of the first", "process, MB", "loss"], table, left=1)
    peers.write_rows(rows, "bert")


if __name__ == "__main__":
    main()
