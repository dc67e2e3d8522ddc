#!/usr/bin/env python3
"""all_reduce between ranks on this machine: thread_communicator, beside memcpy and PyTorch's Gloo.

    python3 bench/allreduce/run.py [--ranks 2 4] [--max-mib 1024]

Each rank has a buffer of floats, reduced in place; sizes are 1 KiB to --max-mib. By the definitions of nccl-tests,
algorithm bandwidth is bytes / time, and bus bandwidth that times 2 (ranks - 1) / ranks. `of memcpy` is the time in
which as many threads copy as many bytes by memcpy, each within its own buffer, over the time of the all_reduce: no
all_reduce reads and writes less, except from caches. Gloo's ranks are processes; its columns are empty without PyTorch
(GRADUS_PEERS_PYTHON names a Python that has it).

What comes out: a table, and build/bench/allreduce.json, a list of {name, value, unit, ratio}, where ratio is to Gloo.
"""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, installed_python, print_table, ratio, run_json, show, write_rows

HEAD = ["ranks", "bytes", "tree us", "algbw GB/s", "busbw GB/s", "of memcpy", "fastest us", "algbw GB/s", "Gloo us",
        "algbw GB/s", "tree / Gloo"]


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--max-mib", type=int, default=1024)
    arguments = parser.parse_args()
    sizes = [1 << k for k in range(10, 31, 2) if 1 << k <= arguments.max_mib << 20]
    python = installed_python(["torch"])
    if not python:
        print("no Python with torch: without Gloo's columns", flush=True)
    table, rows = [], []
    for ranks in arguments.ranks:
        ours, gloo = {}, {}
        for size in sizes:  # in turn, so that both meet the same load
            words = [str(ranks), str(size)]
            row = run_json([str(ROOT / "build/release/bench/allreduce/bench_allreduce"), *words], 1)
            if not row:
                sys.exit("bench/allreduce: bench_allreduce failed")
            ours[size] = row["microseconds"][0]
            row = run_json([python, str(HERE / "gloo.py"), *words], 1) if python else None
            if row:
                gloo[size] = row["microseconds"][0]["gloo"]
            print(f"  {ranks} ranks, {size_text(size)}", flush=True)
        for size in sizes:
            tree, fastest, copy = (ours[size][key] for key in ("tree", "fastest", "memcpy"))
            other = gloo.get(size)
            bandwidth = {name: ratio(size / 1e3, time) for name, time in
                         (("tree", tree), ("fastest", fastest), ("gloo", other))}
            table.append([str(ranks), size_text(size), show(tree, "{:.1f}"), show(bandwidth["tree"], "{:.2f}"),
                          show(bandwidth["tree"] * 2 * (ranks - 1) / ranks, "{:.2f}"), show(copy / tree, "{:.2f}"),
                          show(fastest, "{:.1f}"), show(bandwidth["fastest"], "{:.2f}"), show(other, "{:.1f}"),
                          show(bandwidth["gloo"], "{:.2f}"), show(ratio(other, tree), "{:.1f}")])
            for name, value in bandwidth.items():
                if value is not None:
                    rows.append({"name": f"allreduce/{ranks} ranks/{size_text(size)}/{name}", "value": value,
                                 "unit": "GB/s", "ratio": ratio(value, bandwidth["gloo"])})
            rows.append({"name": f"allreduce/{ranks} ranks/{size_text(size)}/of memcpy", "value": copy / tree,
                         "unit": "1"})
    print()
    print_table(HEAD, table)
    write_rows(rows, "allreduce")


if __name__ == "__main__":
    main()
