#!/usr/bin/env python3
"""gradus, Hugging Face's transformers and llama.cpp write with a model of random parameters, turn about, each in a
process of its own: gpt2 (124M), smollm2 (SmolLM2 135M) or qwen2 (Qwen 2.5 0.5B).

    python3 bench/generation/run.py [--model gpt2] [--precisions fp32 bf16_mixed] [--batches 1 8] [--prompt 32]
                                    [--tokens 64]
                                    [--rounds 3] [--threads 2] [--alone] [--whole] [--gguf FILE]

Both keep keys and values, and always take the likeliest token. bf16_mixed of gradus computes norms and the softmax
in float; transformers has everything in bf16. With --gguf, llama.cpp runs that file where one sequence is written:
make one of the same type by `transformers_model.py --save FOLDER` and `gradus convert`. --alone leaves the others
out; --whole adds what a pass over the whole context would write.

torch and transformers are looked for as bench/peers/run.py does. What comes out: a table, and
build/bench/generation.json, a list of {name, value, unit, ratio}, where ratio is gradus over transformers.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, find_python, machine, print_table, ratio, run_json, show, versions, write_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("gpt2", "smollm2", "qwen2"), default="gpt2")
    parser.add_argument("--gguf", help="the model as llama.cpp reads it")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16_mixed"), default=["fp32", "bf16_mixed"])
    parser.add_argument("--batches", nargs="+", type=int, choices=(1, 8), default=[1, 8])
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="without transformers")
    parser.add_argument("--whole", action="store_true", help="gradus also writes without a cache")
    o = parser.parse_args()
    if o.rounds < 1:
        parser.error("rounds must be positive")
    build = ROOT / "build" / "release"
    done = subprocess.run(["cmake", "--build", str(build), "--target", f"bench_generation_{o.model}"],
                          stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit("bench_generation cannot be built: run scripts/bench.sh generation")
    packages = ["torch", "transformers", *(["llama_cpp"] if o.gguf else [])]
    python = None if o.alone else find_python(packages)

    rows, table = [], []
    for precision in o.precisions:
        for batch in o.batches:
            common = ["--precision", precision, "--batch", str(batch), "--prompt", str(o.prompt),
                      "--tokens", str(o.tokens), "--threads", str(o.threads)]
            commands = {"gradus": [str(build / "bench" / "generation" / f"bench_generation_{o.model}"), *common,
                                   *(["--whole"] if o.whole else [])]}
            if python:
                commands["transformers"] = [python, str(HERE / "transformers_model.py"), "--model", o.model, *common]
            if python and o.gguf and batch == 1:
                commands["llama.cpp"] = [python, str(HERE / "llama_cpp_model.py"), o.gguf, *common[4:]]
            results = {side: [] for side in commands}
            for i in range(o.rounds):
                for side, command in commands.items():
                    result = run_json(command, o.threads)
                    if result:
                        results[side].append(result)
                        print(f"{precision}, {batch} at once, round {i + 1}: {side} {result['tok_s']:.1f} tokens/s",
                              flush=True)
            sides = {side: {key: statistics.median(r[key] for r in found) for key in found[0]}
                     for side, found in results.items() if found}
            peer = sides.get("transformers", {})
            for side, x in sides.items():
                mine = side == "gradus"
                over = ratio(x["tok_s"], peer.get("tok_s")) if mine else None
                share = ratio(x.get("read_gb_s"), x.get("memory_gb_s"))
                for key, label, unit in (("tok_s", "tokens", "tok/s"),
                                         ("prompt_tok_s", "prompt", "tok/s"),
                                         ("peak_mib", "peak memory", "MiB"),
                                         ("read_gb_s", "parameters read", "GB/s"),
                                         ("memory_gb_s", "memory read", "GB/s"),
                                         ("whole_tok_s", "tokens without a cache", "tok/s")):
                    if x.get(key):
                        rows.append({"name": f"{precision} {label}, {batch} at once, {side}", "value": x[key],
                                     "unit": unit, "ratio": ratio(x[key], peer.get(key)) if mine else None})
                table.append([precision, str(batch), side, show(x["tok_s"], "{:.1f}"), show(over, "{:.2f}"),
                              show(x["prompt_tok_s"]), show(x.get("read_gb_s"), "{:.1f}"), show(share, "{:.0%}"),
                              show(x["peak_mib"]),
                              *([show(x.get("whole_tok_s") or None, "{:.2f}")] if o.whole else [])])

    named = f"; {', '.join(v for v in versions(python, packages) if v)}" if python else ""
    print(f"\n{machine()}{named}; {o.threads} threads, {o.tokens} tokens behind {o.prompt}, "
          f"medians of {o.rounds} round{'s' if o.rounds > 1 else ''}")
    print_table(["precision", "at once", "side", "tokens/s", "over transformers", "prompt tokens/s",
                 "GB/s of parameters", "of memory's", "MiB", *(["without cache"] if o.whole else [])], table, left=3)
    write_rows(rows, "generation")


if __name__ == "__main__":
    main()
