#!/usr/bin/env python3
"""gradus and its peers train the same GPTs, turn about, each in a process of its own.

    python3 bench/peers/run.py [--all] [--models nano ...] [--peers eager compile jax] [--rounds 3] [--steps 4]
                               [--precision fp32] [--budget MIB]

The peers are PyTorch as it is (eager), PyTorch through torch.compile, and JAX; eager alone unless --peers or --all says
otherwise. gradus is compared with the best of them on each model: the fastest in tokens a second, the smallest in
memory.

--precision: bf16_mixed is PyTorch's autocast; bf16_gradients is that in the peers, and gradus accumulates gradients in
bf16; bf16_pure has parameters in bf16 on every side. --budget: gradus checkpoints what brings its step within that many
MiB.

Torch and jax are looked for in $GRADUS_PEERS_PYTHON, in build/peers/bin/python, and in the Python that runs this; if
none has what is needed, build/peers is made, with pip. A peer that does not run is named and left out. The gradus
programs, build/release/bench/peers/bench_peers_<model> (with _<precision> behind it, where that is not fp32), are built
first. What comes out: a table, and build/bench/peers.json, a list of {name, value, unit, ratio}, where ratio is gradus
over the best peer, or null on the rows that state a peer's own figure.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from peers import ROOT, find_python, machine, print_table, ratio, run_json, show, versions, write_rows

SHAPES = {  # layers, width, context: what the FLOPs of a token depend on besides the parameters
    "nano": (6, 384, 256),
    "seed": (4, 256, 512),
    "gpt2-64": (12, 768, 64),
    "gpt2-256": (12, 768, 256),
}
PEERS = {  # flag: what it is called, its script, its package, and what it is started with
    "eager": ("PyTorch", "torch_gpt.py", "torch", []),
    "compile": ("PyTorch compiled", "torch_gpt.py", "torch", ["--compile"]),
    "jax": ("JAX", "jax_gpt.py", "jax", []),
}
FIGURES = (("tok_s", "tokens", "tok/s"), ("peak_mib", "peak memory", "MiB"),
           ("peak_over_base_mib", "peak memory over base", "MiB"), ("share", "share of bare GEMM", "1"))


def medians(results):
    """The medians of a side's rounds, or None if it has none."""
    if not results:
        return None
    out = {key: statistics.median(r[key] for r in results) for key in ("tok_s", "peak_mib", "peak_over_base_mib")}
    out["params"] = results[0]["params"]
    return out


def measure(model, o, python):
    """What each side reached, by name with "gradus" last, and the best bare GEMM rate in GFLOP/s."""
    common = ["--steps", str(o.steps), "--warmup", str(o.warmup), "--threads", str(o.threads)]
    peers_precision = "bf16_mixed" if o.precision == "bf16_gradients" else o.precision
    precision = [] if o.precision == "fp32" else ["--precision", peers_precision]
    commands = {}
    for peer in o.peers:
        name, script, _, flags = PEERS[peer]
        commands[name] = [python, str(HERE / script), "--model", model, *common, *precision, *flags]
    suffix = "" if o.precision == "fp32" else f"_{o.precision}"
    program = o.build / "bench" / "peers" / f"bench_peers_{model}{suffix}"
    done = subprocess.run(["cmake", "--build", str(o.build), "--target", program.name],
                          stdout=subprocess.DEVNULL, check=False)
    if done.returncode == 0:
        commands["gradus"] = [str(program), *common, *(["--budget", str(o.budget)] if o.budget else [])]
    else:
        print(f"{model}: {program} cannot be built, and is left out", flush=True)

    results = {name: [] for name in commands}
    for i in range(o.rounds):
        for name, command in commands.items():
            if i > 0 and not results[name]:
                continue  # it failed before, and would again
            result = run_json(command, o.threads)
            if result:
                results[name].append(result)
                print(f"{model} round {i + 1}: {name} {result['tok_s']:.0f} tok/s, {result['peak_mib']:.0f} MiB",
                      flush=True)

    # One yardstick for all: the best of the bare rates is what this machine can do.
    rates = [r["gemm_gflops"] for r in results.get("gradus", []) if r.get("gemm_gflops")]
    rates = [statistics.median(rates)] if rates else []
    if {"eager", "compile"} & set(o.peers):
        bare = run_json([python, str(HERE / "torch_gpt.py"), "--model", model, *common, *precision, "--gemm"],
                        o.threads)
        rates += [bare["gemm_gflops"]] if bare else []
    best = max(rates, default=None)

    layers, width, context = SHAPES[model]
    sides = {name: medians(r) for name, r in results.items() if r}
    for side in sides.values():
        flops = side["tok_s"] * (6 * side["params"] + 12 * layers * width * context)
        side["share"] = flops / 1e9 / best if best else None
    if len({side["params"] for side in sides.values()}) > 1:
        print(f"{model}: the sides do not train the same model: "
              f"{({n: s['params'] for n, s in sides.items()})} parameters")
    return sides, best


def best_of(sides, key):
    """The best figure of any peer: the most tokens a second, the least memory."""
    values = [side[key] for name, side in sides.items() if name != "gradus" and side.get(key) is not None]
    if not values:
        return None
    return min(values) if key.startswith("peak") else max(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all models and all peers, which takes a while")
    parser.add_argument("--models", nargs="+", choices=SHAPES, help="default: all but gpt2-256")
    parser.add_argument("--peers", nargs="+", choices=PEERS, help="default: eager")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16_mixed", "bf16_gradients", "bf16_pure"), default="fp32")
    parser.add_argument("--budget", type=int, default=0, help="MiB of gradus's step; without it nothing is recomputed")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where gradus is built")
    o = parser.parse_args()
    if o.rounds < 1:
        parser.error("rounds must be positive")
    o.models = o.models or [m for m in SHAPES if o.all or m != "gpt2-256"]
    o.peers = o.peers or (list(PEERS) if o.all else ["eager"])
    packages = sorted({PEERS[p][2] for p in o.peers} | {"numpy"})
    python = find_python(packages)

    rows, table = [], []
    for model in o.models:
        sides, bare = measure(model, o, python)
        ours = sides.get("gradus", {})
        for key, label, unit in FIGURES:
            for name, side in sides.items():
                if side.get(key) is not None:
                    compared = ratio(side[key], best_of(sides, key)) if name == "gradus" else None
                    rows.append({"name": f"{model} {o.precision} {label}, {name}", "value": side[key], "unit": unit,
                                 "ratio": compared})
        for name, side in sides.items():
            mine = name == "gradus"
            table.append([model, name, show(side["tok_s"]), show(side["share"], "{:.0%}"), show(side["peak_mib"]),
                          show(ratio(ours.get("tok_s"), best_of(sides, "tok_s")), "{:.2f}") if mine else "",
                          show(ratio(ours.get("peak_mib"), best_of(sides, "peak_mib")), "{:.2f}") if mine else "",
                          show(bare) if mine else ""])

    head = ["model", "side", "tok/s", "of bare GEMM", "MiB", "tok/s over best peer", "MiB over best peer",
            "bare GFLOP/s"]
    print(f"\n{machine()}; {', '.join(v for v in versions(python, packages) if v)}; {o.threads} threads, "
          f"{o.precision}, medians of {o.rounds} round{'s' if o.rounds > 1 else ''}")
    print_table(head, table)
    write_rows(rows, "peers")


if __name__ == "__main__":
    main()
