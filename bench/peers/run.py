#!/usr/bin/env python3
"""gradus and PyTorch train the same GPTs, turn about, each in a process of its own.

    python3 bench/peers/run.py [--all] [--rounds 3] [--steps 4] [--precision fp32] [--compile]

PyTorch is looked for in $GRADUS_PEERS_PYTHON, in build/peers/bin/python, and in the Python that runs this; if none has
it, build/peers is made, with pip. The gradus programs are build/release/bench/peers/bench_peers_<model>; one that is not built is named and
left out. What comes out: a table, and build/bench/peers.json, a list of {name, value, unit, ratio}, where ratio is gradus
over PyTorch, or null on the rows that state PyTorch's own figure.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
YARDSTICK = pathlib.Path(__file__).resolve().with_name("torch_gpt.py")
SHAPES = {  # layers, width, context: what the FLOPs of a token depend on besides the parameters
    "nano": (6, 384, 256),
    "seed": (4, 256, 512),
    "gpt2-64": (12, 768, 64),
    "gpt2-256": (12, 768, 256),
}


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch, numpy"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def find_python():
    named = os.environ.get("GRADUS_PEERS_PYTHON")
    if named:
        if has_torch(named):
            return named
        print(f"GRADUS_PEERS_PYTHON={named} has no torch: looking further", flush=True)
    venv = ROOT / "build" / "peers"
    own = str(venv / "bin" / "python")
    if has_torch(own):
        return own
    if has_torch(sys.executable):
        return sys.executable
    print(f"making a Python environment with torch and numpy in {venv.relative_to(ROOT)} (once, a large download)", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([own, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"that failed: {e}", flush=True)
    if has_torch(own):
        return own
    sys.exit("no Python with torch: set GRADUS_PEERS_PYTHON to one")


def run_json(command, threads):
    """Runs a command and returns the JSON object on its last line of output, or None, having said why."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    lines = done.stdout.strip().splitlines()
    try:
        if done.returncode == 0:
            return json.loads(lines[-1])
    except (IndexError, ValueError):
        pass
    print(f"  failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stderr[-2000:]}", flush=True)
    return None


def flops_per_token(model, params):
    layers, width, context = SHAPES[model]
    return 6 * params + 12 * layers * width * context


def measure(model, o, python):
    """Medians of both sides: a dictionary each, ours None if it is not built."""
    common = ["--steps", str(o.steps), "--warmup", str(o.warmup), "--threads", str(o.threads)]
    if o.precision != "fp32":
        common += ["--precision", o.precision]
    torch_command = [python, str(YARDSTICK), "--model", model]
    program = o.build / "bench" / "peers" / f"bench_peers_{model}"
    if not program.exists():
        print(f"{model}: {program} is missing: build it to compare", flush=True)
        program = None
    theirs, ours = [], []
    for i in range(o.rounds):
        for name, command, results in (("PyTorch", torch_command + common + ["--compile"] * o.compile, theirs),
                                       ("gradus", program and [str(program)] + common, ours)):
            result = command and run_json(command, o.threads)
            if result:
                results.append(result)
                print(f"{model} round {i + 1}: {name} {result['tok_s']:.0f} tok/s, {result['peak_mib']:.0f} MiB", flush=True)
    bare = run_json(torch_command + common + ["--gemm"], o.threads) if theirs else None

    def medians(results, gemm):
        if not results:
            return None
        out = {key: statistics.median(r[key] for r in results) for key in ("tok_s", "peak_mib")}
        over = [r["peak_over_base_mib"] for r in results if "peak_over_base_mib" in r]
        out["peak_over_base_mib"] = statistics.median(over) if over else None
        out["gflops"] = out["tok_s"] * flops_per_token(model, results[0]["params"]) / 1e9
        out["gemm_gflops"] = gemm
        out["params"] = results[0]["params"]
        out["torch"] = results[0].get("torch")
        return out

    rates = [r["gemm_gflops"] for r in ours if r.get("gemm_gflops")]
    ours = medians(ours, statistics.median(rates) if rates else None)
    theirs = medians(theirs, bare and bare["gemm_gflops"])
    if ours and theirs and ours["params"] != theirs["params"]:
        print(f"{model}: the sides do not train the same model: {theirs['params']} parameters against {ours['params']}")
    # One yardstick for both: the better of the two bare rates is what this machine can do.
    best = max((side["gemm_gflops"] for side in (ours, theirs) if side and side["gemm_gflops"]), default=None)
    for side in (ours, theirs):
        if side:
            side["share"] = side["gflops"] / best if best else None
    return theirs, ours, best


def machine(torch_version):
    model = platform.processor() or platform.machine()
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, torch {torch_version}"


def show(value, form="{:.0f}"):
    return form.format(value) if value is not None else "-"


def ratio(a, b):
    return a / b if a is not None and b else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="gpt2-256 too, which takes a few minutes")
    parser.add_argument("--models", nargs="+", choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true", help="PyTorch's side through torch.compile")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="where gradus is built")
    o = parser.parse_args()
    if o.rounds < 1:
        parser.error("rounds must be positive")
    python = find_python()
    models = o.models or [m for m in SHAPES if o.all or m != "gpt2-256"]

    rows, table, version = [], [], "?"
    for model in models:
        theirs, ours, bare = measure(model, o, python)
        version = (theirs or {}).get("torch") or version
        prefix = f"{model} {o.precision}"
        for key, label, unit in (("tok_s", "tokens", "tok/s"), ("peak_mib", "peak memory", "MiB"),
                                 ("peak_over_base_mib", "peak memory over base", "MiB"), ("share", "share of bare GEMM", "1")):
            t, g = (theirs or {}).get(key), (ours or {}).get(key)
            if t is not None:
                rows.append({"name": f"{prefix} {label}, PyTorch", "value": t, "unit": unit, "ratio": None})
            if g is not None:
                rows.append({"name": f"{prefix} {label}, gradus", "value": g, "unit": unit, "ratio": ratio(g, t)})
        t, g = theirs or {}, ours or {}
        table.append([model, show(t.get("tok_s")), show(g.get("tok_s")),
                      show(ratio(g.get("tok_s"), t.get("tok_s")), "{:.2f}"), show(bare),
                      show(t.get("share"), "{:.0%}"), show(g.get("share"), "{:.0%}"),
                      show(t.get("peak_mib")), show(g.get("peak_mib")),
                      show(ratio(g.get("peak_mib"), t.get("peak_mib")), "{:.2f}")])

    head = ["model", "PyTorch tok/s", "gradus tok/s", "ratio", "bare GFLOP/s", "PyTorch share", "gradus share",
            "PyTorch MiB", "gradus MiB", "ratio"]
    widths = [max(len(line[i]) for line in [head] + table) for i in range(len(head))]
    print(f"\n{machine(version)}; {o.threads} threads, {o.precision}{', torch.compile' if o.compile else ''}, "
          f"medians of {o.rounds} rounds")
    for line in [head] + table:
        print("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))))
    path = pathlib.Path(os.environ.get("GRADUS_BENCH_JSON", ROOT / "build" / "bench" / "peers.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
