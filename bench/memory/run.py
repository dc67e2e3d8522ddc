#!/usr/bin/env python3
"""Memory and time of a GPT's training step under schedules of checkpoint regions: planned, and measured.

    python3 bench/memory/run.py [MODEL ...] [--repeat 3]

Models: nano, seed-8, seed-32 (batch 8 and 32), gpt2-64, gpt2-256 (context 64 and 256); all of them if none is named.
For each schedule a process of its own runs two steps without a plan: the peak of what was asked for, by the statistics
resource, must equal the planned peak to the byte. Times are medians of steps in planned memory, alternating with steps
that keep everything; the predicted time comes from the operations of the latter. What comes out: a table, and
build/bench/memory.json, a list of {name, value, unit, ratio, planned_bytes, measured_bytes, process_bytes,
predicted_ms, measured_ms, ...}, where value is the measured time and ratio that time over the time of keeping
everything.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from bench_report import write_rows  # noqa: E402

MODELS = ["nano", "seed-8", "seed-32", "gpt2-64", "gpt2-256"]
SHAPES = {"nano": (6, 6, 384, 256, 12), "seed-8": (4, 4, 256, 512, 8), "seed-32": (4, 4, 256, 512, 32),
          "gpt2-64": (12, 12, 768, 64, 4), "gpt2-256": (12, 12, 768, 256, 8)}  # layers, heads, width, context, batch
MIB = 1 << 20


# An unplanned process asks the C library for each block. From 64 KiB they come from the system and go back to it when
# they end, so that what is measured is not how the library keeps freed memory.
RETURNING = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536"}


def lines(command, environment=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def formula_bytes(model):
    """Activations of the layers by Korthikanti et al. (arXiv 2205.05198), for numbers of 4 bytes instead of 2 and no
    mask: with all scores kept, and with nothing kept but the layers' inputs (their 34 is 17 numbers of 2 bytes less 3
    of masks)."""
    layers, heads, width, context, batch = SHAPES[model]
    sbh = context * batch * width
    return layers * sbh * (34 + 5 * heads * context / width), layers * 2 * sbh


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--repeat", type=int, default=3)
    o = parser.parse_args()
    for model in o.models:
        if model not in MODELS:
            parser.error(f"no model '{model}'; there are {', '.join(MODELS)}")
    out = pathlib.Path(os.environ.get("GRADUS_BENCH_JSON", ROOT / "build/bench/memory.json"))
    rows, wrong = [], []
    for model in o.models or MODELS:
        program = ROOT / "build/release/bench/memory" / f"bench_memory_{model}"
        timed = lines([program, "time", "--repeat", str(o.repeat)])
        base = timed[0]
        print(f"\n{model}: {base['persistent_bytes'] / MIB:.0f} MiB of parameters and optimizer state", flush=True)
        print(f"{'schedule':<10} {'planned peak':>14} {'measured peak':>14} {'diff':>5} {'process':>9} "
              f"{'workspace':>9} {'activations':>11} {'saved':>9} {'again':>9} {'ms':>9} {'of none':>7} "
              f"{'predicted':>9} {'off':>6}")
        losses = set()
        for t in timed:
            peak = lines([program, "peak", *t["parts"]], RETURNING)[0]
            losses.add(peak["loss"])
            ratio = t["measured_ms"] / t["none_ms"]
            off = t["predicted_ms"] / t["measured_ms"] - 1
            rows.append({"name": f"{model}/{t['row']}", "value": t["measured_ms"], "unit": "ms", "ratio": ratio, **peak,
                         **{k: t[k] for k in t if k not in ("row", "parts")}, "schedule": t["parts"]})
            print(f"{t['row']:<10} {t['planned_bytes']:>14} {peak['measured_bytes']:>14} "
                  f"{peak['measured_bytes'] - t['planned_bytes']:>5} {peak['process_bytes'] / MIB:>5.0f} MiB "
                  f"{t['workspace_bytes'] / MIB:>5.0f} MiB {t['activation_bytes'] / MIB:>7.1f} MiB "
                  f"{t['saved_bytes'] / MIB:>5.0f} MiB "
                  f"{t['recomputed_gflop']:>5.0f} GF {t['measured_ms']:>9.1f} {ratio:>7.3f} {t['predicted_ms']:>9.1f} "
                  f"{100 * off:>+5.0f}%", flush=True)
            if peak["measured_bytes"] != t["planned_bytes"]:
                wrong.append(f"{model}/{t['row']}: planned {t['planned_bytes']} bytes, "
                             f"measured {peak['measured_bytes']}")
        if len(losses) != 1:
            wrong.append(f"{model}: the schedules do not compute the same loss: {sorted(losses)}")
    write_rows(rows, out)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
