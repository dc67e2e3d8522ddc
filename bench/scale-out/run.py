#!/usr/bin/env python3
"""A GPT's step on 1, 2 and 4 ranks of this machine, and what a model of the step makes of it and of 8 to 4096 GPUs.

    python3 bench/scale-out/run.py [--rounds 5]

The ranks are threads, each with a micro-batch of 512 tokens, so twice the ranks have twice the work; 4 ranks on 2
processors share them. Times are the least of 4 steps a round. The model (bench/scale-out/model.hpp) knows this machine
from steps of ranks that exchange nothing and from sums of two ranks, and has seen no step that it predicts. The GPUs it
knows from the assumptions that are printed. What comes out: tables, and build/bench/scale-out.json, a list of {name,
value, unit, ...}, where ratio is measured over predicted time.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "support"))
import peers  # noqa: E402

PROGRAM = ROOT / "build/release/bench/scale-out/bench_scale-out"


def print_measured(found):
    machine = found["machine"][0]
    print("this machine: {processors:.0f} processors of {gflops:.0f} GFLOP/s in forward and backward and "
          "{update_gb_s:.1f} GB/s in the update, {together:.2f} times as slow if all work; exchanges of "
          "{bandwidth_gb_s:.1f} GB/s, {latency_us:.0f} us a message".format(**machine))
    table, errors = [], []
    for m in found["measured"]:
        error = m["predicted_ms"] / m["step_ms"] - 1
        if m["ranks"] > 1:
            errors.append(abs(error))
        table.append([str(m["ranks"]), m["shard"], m["sums"], f"{m['step_ms']:.1f}", f"{m['predicted_ms']:.1f}",
                      f"{100 * error:+.0f} %", f"{m['exchange_ms']:.1f}", f"{m['bytes'] / 1e6:.1f}"])
    peers.print_table(["ranks", "sharding", "sums", "step, ms", "predicted", "off", "of it exchange",
                       "planned of rank 0, MB"], table, left=3)
    print(f"the prediction is off by {100 * statistics.median(errors):.0f} % in the median and "
          f"{100 * max(errors):.0f} % at most")


def print_predicted(found):
    print("\nassumed:")
    for a in found["assumption"]:
        print(f"  {a['what']}: {a['value']} ({a['source']})")
    for c in found["check"]:
        print(f"  so NCCL's all_reduce of {c['bytes'] >> 10} KiB on 4 nodes has a bus bandwidth of {c['gb_s']:.1f} GB/s; "
              f"nccl-tests has {c['published_gb_s']:.1f}")
    for model in dict.fromkeys(p["model"] for p in found["predicted"]):
        print(f"\n{model}: predicted")
        rows = [[str(p["ranks"]), p["shard"], p["sums"], f"{p['step_ms']:.1f}",
                 peers.show(p["tokens_s"] / 1e6, "{:.2f}"),
                 f"{100 * p['efficiency']:.0f} %", f"{p['exchange_ms']:.1f}", f"{100 * p['hidden']:.0f} %",
                 f"{p['bytes'] / 1e9:.1f}", "yes" if p["fits"] else "no"]
                for p in found["predicted"] if p["model"] == model]
        peers.print_table(["GPUs", "sharding", "sums", "step, ms", "M tokens/s", "of one GPU's rate", "exchange, ms",
                           "hidden", "planned, GB a GPU", "fits 80 GB"], rows, left=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    command = [str(PROGRAM), "--rounds", str(o.rounds)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in text.splitlines():
        row = json.loads(line)
        found.setdefault(row.pop("row"), []).append(row)
    print_measured(found)
    print_predicted(found)
    rows = [{"name": f"measured/{m['ranks']}/{m['shard']}/{m['sums']}", "value": m["step_ms"], "unit": "ms",
             "ratio": m["step_ms"] / m["predicted_ms"], **m} for m in found["measured"]]
    rows += [{"name": f"{p['model']}/{p['ranks']}/{p['shard']}/{p['sums']}", "value": p["step_ms"], "unit": "ms", **p}
             for p in found["predicted"]]
    peers.write_rows(rows, "scale-out")


if __name__ == "__main__":
    main()
