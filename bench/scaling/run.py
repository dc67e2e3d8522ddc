#!/usr/bin/env python3
"""The speed-up that the grids of a training step allow on 2 to 192 threads, for each operation.

    python3 bench/scaling/run.py [MODEL...]      MODEL: nano, seed, gpt2-64, gpt2-256; all unless named

It needs no such machine: bench_scaling_<model> runs the very loops that so many threads would get, on one thread, and
takes the time of every task. A bound is the work of all tasks over that of the busiest thread, with what lies outside
of loops counted in full. Packing more in smaller tiles is work too, so a bound says how evenly it is spread and not how
much of it there is: the columns with an x are the time on one thread, with its large tiles, over the busiest thread's.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ("nano", "seed", "gpt2-64", "gpt2-256")
THREADS = (2, 8, 32, 96, 192)


def main():
    models = sys.argv[1:] or MODELS
    for model in models:
        if model not in MODELS:
            sys.exit(f"bench/scaling: no model '{model}'; there are: {' '.join(MODELS)}")
    rows = []
    for model in models:
        program = ROOT / "build" / "release" / "bench" / "scaling" / f"bench_scaling_{model}"
        run = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"bench/scaling: {program.relative_to(ROOT)} failed: {run.stderr.strip()}")
        ops = [json.loads(line) for line in run.stdout.splitlines()]
        ops.sort(key=lambda op: (op["name"] != "step", -op["share"]))
        print(f"\n{model:<40}{'share':>8}{'tasks':>8}" + "".join(f"{t:>8}{f'x {t}':>8}" for t in THREADS), flush=True)
        for op in ops:
            op["name"] = f"{model} {op['name'].removeprefix('causal_')}"
            pairs = ((op[f"bound_{t}"], op[f"work_{t}"]) for t in THREADS)
            columns = "".join(f"{bound:>8.1f}{bound / work:>8.1f}" for bound, work in pairs)
            print(f"{op['name']:<40}{op['share']:>8.1%}{op['tasks']:>8}{columns}")
        rows += ops
    path = pathlib.Path(os.environ.get("GRADUS_BENCH_JSON", ROOT / "build" / "bench" / "scaling.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
