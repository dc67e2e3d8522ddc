#!/usr/bin/env python3
"""What the benchmarks share: rows, their table, and the machine they were measured on.

    python3 scripts/bench_report.py GOOGLE.json ROWS.json    turns Google Benchmark's output into rows and prints them
    python3 scripts/bench_report.py --machine                prints the machine in one line

A row is {"name", "value", "unit"}, with "ratio" and "against" where two are compared. Two benchmarks are compared if
their names differ in one part only, which is `gradus` in one of them: matmul/gradus/256 and matmul/eigen/256. The ratio
stands in gradus's row: its value over the best of the others.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

MODES = re.compile(r"/(iterations:\d+|repeats:\d+|min_time:[0-9.]+s?|manual_time|real_time|process_time)")  # not names
RATES = {"items_per_second": "items/s", "bytes_per_second": "B/s"}
STANDARD = {  # the fields of a Google Benchmark entry that are not user counters
    "name", "run_name", "run_type", "repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time",
    "time_unit", "family_index", "per_family_instance_index", "aggregate_name", "aggregate_unit", "label",
    "error_occurred", "error_message", "big_o", "rms", "skipped", "skip_message",
}


def machine():
    """The CPU model, the cores this process may use, and the compiler."""
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    try:
        compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, IndexError):
        compiler = "no g++"
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {compiler}"


def google_rows(report):
    """Google Benchmark's report as rows: the time of each benchmark, then each of its counters."""
    rows, errors = [], []
    entries = report["benchmarks"]
    # With repetitions, the medians stand for all of them; an error has none.
    if any(e.get("aggregate_name") == "median" for e in entries):
        entries = [e for e in entries if e.get("aggregate_name") == "median" or e.get("error_occurred")]
    for entry in entries:
        name = MODES.sub("", entry.get("run_name", entry["name"]))
        if entry.get("error_occurred"):
            errors.append(f"{name}: {entry.get('error_message', 'failed')}")
            continue
        rows.append({"name": name, "value": entry["real_time"], "unit": entry["time_unit"]})
        for counter, value in entry.items():
            if counter not in STANDARD and isinstance(value, (int, float)):
                rows.append({"name": f"{name}:{counter}", "value": value, "unit": RATES.get(counter, counter)})
    return rows, errors


def add_ratios(rows):
    """Sets ratio and against in the rows of gradus that have a counterpart."""
    for row in rows:
        parts = row["name"].split(":")[0].split("/")
        if "gradus" not in parts or ":" in row["name"]:
            continue
        at = parts.index("gradus")
        others = [
            r for r in rows
            if ":" not in r["name"] and r is not row and len(r["name"].split("/")) == len(parts)
            and all(a == b or i == at for i, (a, b) in enumerate(zip(r["name"].split("/"), parts)))
        ]
        if others:
            best = min(others, key=lambda r: r["value"])
            row["ratio"] = row["value"] / best["value"]
            row["against"] = best["name"].split("/")[at]


def number(value):
    if isinstance(value, int) or value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def print_table(rows):
    """One line a row, columns aligned; a benchmark's counters stand in its line."""
    lines = [("benchmark", "value", "unit", "ratio")]
    names = {row["name"] for row in rows}
    counters = {}
    for row in rows:
        benchmark, _, _ = row["name"].rpartition(":")
        if benchmark in names:
            counters.setdefault(benchmark, []).append(f"{number(row['value'])} {row['unit']}")
            continue
        ratio = row.get("ratio")
        text = "" if ratio is None else f"{ratio:.2f}" + (f" of {row['against']}" if row.get("against") else "")
        lines.append((row["name"], number(row["value"]), row["unit"], text))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for name, value, unit, ratio in lines:
        rates = "".join(f"  {rate:>14}" for rate in counters.get(name, []))
        print(f"{name:<{widths[0]}}  {value:>{widths[1]}}  {unit:<{widths[2]}}  {ratio:<{widths[3]}}{rates}".rstrip())


def write_rows(rows, path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def main():
    if sys.argv[1:] == ["--machine"]:
        print("machine:", machine())
        return
    if len(sys.argv) != 3:
        sys.exit("usage: bench_report.py GOOGLE.json ROWS.json | --machine")
    try:
        rows, errors = google_rows(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    except (OSError, ValueError, KeyError) as problem:
        sys.exit(f"{sys.argv[1]}: not a Google Benchmark report: {problem}")
    add_ratios(rows)
    print_table(rows)
    write_rows(rows, sys.argv[2])
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
