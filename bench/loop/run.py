#!/usr/bin/env python3
"""What a training loop adds to its steps: waiting for batches, the places where a profiler looks on, and the memory of
a large text.

    python3 bench/loop/run.py [--steps 20] [--rounds 5] [--threads 2] [--source 0.8] [--text-mib 1024]

bench_loop times a small GPT's steps: with batches at hand; with a source that takes --source of a step, waited for in
turn; and with a prefetcher before the same source. It counts the operations of a step, and what one costs for being
observable while nobody observes. Then gpt_train trains for a few steps on a text of --text-mib (0: it does not), and
its peak memory stands beside its plan.

What comes out: a table, and build/bench/loop.json, a list of {name, value, unit, ratio}, where ratio is to the step (of
memory: to the plan).
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, machine, print_table, run_json, write_rows

BUILD = ROOT / "build" / "release"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def build(target):
    done = subprocess.run(["cmake", "--build", str(BUILD), "--target", target],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-2000:]}\n{target} cannot be built: run scripts/bench.sh loop")


def trained_on(mib, threads):
    """MiB that gpt_train planned and took, with a text of so many."""
    build("gpt_train")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="loop-", dir=ROOT / "build" / "bench"))
    try:
        block = b"".join(p.read_bytes() for p in PAGES)
        with open(folder / "text.txt", "wb") as text:
            while text.tell() < mib << 20:
                text.write(block)
        done = subprocess.run([str(BUILD / "examples" / "gpt_train"), "--data", str(folder / "text.txt"),
                               "--steps", "40", "--threads", str(threads), "--out", str(folder / "run")],
                              capture_output=True, text=True, check=False)
        found = re.search(r"memory: (\d+) MiB planned, the process's peak (\d+) MiB", done.stdout)
        if done.returncode != 0 or not found:
            sys.exit(f"gpt_train failed ({done.returncode}): {done.stderr[-2000:]}")
        return int(found[1]), int(found[2])
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--source", type=float, default=0.8)
    parser.add_argument("--text-mib", type=int, default=1024)
    o = parser.parse_args()
    build("bench_loop")
    x = run_json([str(BUILD / "bench" / "loop" / "bench_loop"), "--steps", str(o.steps), "--rounds", str(o.rounds),
                  "--threads", str(o.threads), "--source", str(o.source)], o.threads)
    if not x:
        sys.exit("bench_loop gave no result")
    step = x["step_ms"]
    places = 1e-6 * x["places"] * x["place_ns"]
    source = f"a source of {x['source_ms']:.1f} ms"
    table, rows = [], []

    def add(name, value, unit, form, ratio, form_of_ratio="{:.3f}"):
        rows.append({"name": name, "value": value, "unit": unit, "ratio": ratio})
        table.append([name, form.format(value) + " " + unit, form_of_ratio.format(ratio)])

    add("a step, its batch at hand", step, "ms", "{:.2f}", 1.0)
    add(f"{source} and a step in turn", x["in_turn_ms"], "ms", "{:.2f}", x["in_turn_ms"] / step)
    add(f"{source} behind a prefetcher", x["prefetched_ms"], "ms", "{:.2f}", x["prefetched_ms"] / step)
    add("a step with a profiler on", x["profiled_ms"], "ms", "{:.2f}", x["profiled_ms"] / step)
    add(f"{x['places']} operations observable, by nobody", 1000 * places, "us", "{:.2f}", places / step, "{:.6f}")
    if o.text_mib > 0:
        (ROOT / "build" / "bench").mkdir(parents=True, exist_ok=True)
        planned, peak = trained_on(o.text_mib, o.threads)
        add(f"peak of gpt_train on {o.text_mib} MiB of text, {planned} planned", peak, "MiB", "{:.0f}",
            peak / planned, "{:.2f}")
    print(f"\n{machine()}; {o.threads} threads, medians of {o.rounds} rounds of {o.steps} steps")
    print_table(["what", "takes", "of a step, or of the plan"], table, left=1)
    write_rows(rows, "loop")


if __name__ == "__main__":
    main()
