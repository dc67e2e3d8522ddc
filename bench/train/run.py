#!/usr/bin/env python3
"""What each technique brings: a GPT trained naively, and then with one technique more at a time.

    python3 bench/train/run.py [--model nano seed] [--rungs naive,bf16,...] [--tables ladder,ablation,optimizers]
                               [--steps N] [--rounds 2] [--threads N] [--jobs N] [--quick] [--device cuda]
                               [--programs DIR]

Three tables for each model. The ladder: each rung has one technique more than the rung before. The ablation: all
techniques but one, beside all of them. The optimizers: bf16 products, planned memory, nothing recomputed. --rungs names
those of the ladder and of the ablation that are run (`naive` is the first of the ladder); --quick runs two steps of
each on a tiny model, which tells no times.

With --device cuda all of it on a GPU, with rungs that a CPU does not have (tf32, tuned-products, step-graph), on the
models seed and gpt2. --programs names a folder that has the programs; otherwise they are built.

Every run is a process of its own on the same tokens, seed and order of batches, and does --steps steps after one that
does not count, on a GPU three (the models have their own number); runs take turns, --rounds times. Step time is the
median over the steps of all rounds, by the clock, and as time of the processor, all threads together, which does not
count what other programs take. A GPU's steps are timed together, for the host runs ahead. Memory is the most that was
asked for at once in a step, and the process's peak resident size, or what was taken of the GPU's memory. The loss is
that of the last step's batch, before its update.

Checked, or else the status is 1: rungs in fp32 that compute the same function have the same losses to 1e-3; prefetch,
step-graph, checkpoint and planned-memory change no bit; bf16 is within 2 % of fp32; all rounds have the same bits.

What comes out: the tables, build/bench/train.svg (of a GPU: train-cuda.svg), and build/bench/train.json, a list of
{name, value, unit, ratio, total}: ratio to the rung before (in the ablation and for optimizers to all techniques, and
to adamw), total to the first.
"""
import argparse
import array
import bisect
import itertools
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from bench_report import machine, write_rows  # noqa: E402

MODELS = {  # as in sizes.hpp: context, vocabulary, sequences a step; and steps of a run
    "tiny": {"context": 16, "vocabulary": 300, "batch": 8, "steps": 2},
    "nano": {"context": 256, "vocabulary": 256, "batch": 12, "steps": 12},
    "seed": {"context": 512, "vocabulary": 50257, "batch": 8, "steps": 6},
    "gpt2": {"context": 1024, "vocabulary": 50257, "batch": 8, "steps": 10},
}
MODELS_ON = {"cpu": ["nano", "seed"], "cuda": ["seed", "gpt2"]}
WARMUP = {"cpu": 1, "cuda": 3}  # of a GPU the first step tunes products, the second makes the graph
TABLES = ("ladder", "ablation", "optimizers")
OPTIMIZERS = ("sgd", "lion", "adamw", "any_precision_adamw", "adamw_8bit", "adafactor", "muon")
SAME_BITS = ("prefetch", "step-graph", "checkpoint", "planned-memory")  # as the rung before
MIB = 1 << 20


def build(targets, jobs):
    """Builds programs that are not up to date, `jobs` compilers at a time."""
    began = time.monotonic()
    done = subprocess.run(["cmake", "--build", str(ROOT / "build/release"), "-j", str(jobs), "--target", *targets],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + f"bench/train: building {' '.join(targets)} failed")
    took = time.monotonic() - began
    if took > 5:
        print(f"built {len(targets)} programs in {took:.0f} s", flush=True)


class Programs:
    """Where they are, and how they are started."""

    def __init__(self, o):
        self.jobs = o.jobs
        self.built = not o.programs
        self.folder = pathlib.Path(o.programs or ROOT / "build/release/bench/train")
        self.prefix = "bench_train_" if o.device == "cpu" else f"bench_train_{o.device}_"
        self.launcher = shlex.split(os.environ.get("GRADUS_CUDA_LAUNCHER", "")) if o.device == "cuda" else []

    def build(self, names):
        if self.built:
            build([self.prefix + n for n in names], self.jobs)

    def command(self, name, *arguments):
        return [*self.launcher, self.folder / (self.prefix + name), *arguments]


def output_of(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def tokens_file(vocabulary):
    """A million tokens, each drawn by Zipf's law, counted on from the one before: something to learn for a few steps.
    Made once."""
    path = ROOT / f"build/bench/train-{vocabulary}.bin"
    if path.exists():
        return path
    ranks = min(vocabulary, 1000)
    shares = list(itertools.accumulate(1 / (r + 1) ** 1.3 for r in range(ranks)))
    draw = random.Random(vocabulary).random
    tokens, token = array.array("H"), 0
    for _ in range(1 << 20):
        token = (token * 31 + bisect.bisect(shares, draw() * shares[-1])) % vocabulary
        tokens.append(token)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(tokens.tobytes())
    new.replace(path)
    return path


class Run:
    """One way to train a model: its program, and what its rounds measured."""

    def __init__(self, label, command):
        self.label, self.command, self.rounds = label, command, []

    def go(self):
        self.rounds.append(output_of(self.command)[0])

    @property
    def losses(self):
        return self.rounds[0]["losses"]

    def figures(self, tokens):
        ms = statistics.median(itertools.chain.from_iterable(r["step_ms"] for r in self.rounds))
        cpu = statistics.median(itertools.chain.from_iterable(r["cpu_ms"] for r in self.rounds))
        return {"ms": ms, "cpu": cpu, "tokens": tokens / ms * 1e3,
                "step": max(r["step_bytes"] for r in self.rounds) / MIB,
                "process": max(r["process_bytes"] for r in self.rounds) / MIB, "loss": self.losses[-1],
                "state": self.rounds[0]["state_bytes"] / self.rounds[0]["parameters"]}


def take_turns(runs, rounds, what):
    for turn in range(rounds):
        for run in runs:
            run.go()
            last = run.rounds[-1]
            print(f"  {what}, round {turn + 1}: {run.label}: {statistics.median(last['step_ms']):.1f} ms",
                  file=sys.stderr, flush=True)


def differences(runs, ladder):
    """What is wrong with the losses. `ladder`: (entry of bench_train_list, run), in its order."""
    wrong = []
    for run in runs:
        if any(r["losses"] != run.losses for r in run.rounds):
            wrong.append(f"{run.label}: rounds differ in their losses")
    by_number = {entry["number"]: run for entry, run in ladder}
    for entry, run in ladder:
        fp32 = not {"bf16", "tf32"} & set(entry["on"])
        first = by_number.get(entry["same"])
        if fp32 and first:
            off = max(abs(a - b) for a, b in zip(run.losses, first.losses))
            if not off <= 1e-3:
                wrong.append(f"{run.label}: losses are {off:.2g} off those of {first.label}; "
                             "in fp32 they must be within 1e-3")
        before = by_number.get(entry["number"] - 1)
        if entry["name"] in SAME_BITS and before and run.losses != before.losses:
            wrong.append(f"{run.label}: losses are not those of {before.label}, to the bit")
        if entry["name"] in ("tf32", "bf16") and before and not abs(run.losses[-1] / before.losses[-1] - 1) <= 0.02:
            wrong.append(f"{run.label}: the last loss is {run.losses[-1]:.4f}, "
                         f"that of {before.label} {before.losses[-1]:.4f}")
    return wrong


COLUMNS = (("ms", "step", "ms"), ("cpu", "processor", "ms"), ("tokens", "tokens", "tok/s"),
           ("step", "step memory", "MiB"), ("process", "process memory", "MiB"), ("loss", "loss", "nats"))
RATIOS = ("ms", "cpu", "step")  # below 1 is better


def add_rows(rows, name, now, before, first):
    for key, what, unit in COLUMNS:
        row = {"name": f"{name}: {what}", "value": now[key], "unit": unit}
        if before:
            row["ratio"] = now[key] / before[key]
        if first:
            row["total"] = now[key] / first[key]
        rows.append(row)


def heading(title, against):
    print(f"\n{title}\n{'':<22}{'ms':>9}{'cpu ms':>9}{'tok/s':>9}{'step MiB':>10}{'process':>9}{'loss':>9}   {against}",
          flush=True)


def line(label, f, *ratios):
    print(f"{label:<22}{f['ms']:>9.1f}{f['cpu']:>9.1f}{f['tokens']:>9.0f}{f['step']:>10.1f}{f['process']:>9.0f}"
          f"{f['loss']:>9.4f}   " + "  ".join(f"{r:>6.2f}" for r in ratios), flush=True)


def measure(model, chosen, o, programs, rows):
    """Runs a model's tables. Returns the ladder's figures, for the picture, and what was wrong."""
    m = MODELS[model]
    steps = o.steps or m["steps"]
    tokens = m["context"] * m["batch"]
    flags = ["--tokens", tokens_file(m["vocabulary"]), "--steps", steps, "--warmup", WARMUP[o.device],
             "--threads", o.threads]
    ladder = [e for e in chosen if not e["without"]]
    ablated = [e for e in chosen if e["without"]] if "ablation" in o.tables else []
    whole = max(e["number"] for e in o.all if not e["without"])
    if ablated and not any(e["number"] == whole for e in ladder):
        ladder.append(next(e for e in o.all if e["number"] == whole))  # what the ablation is held against
    if not ablated and "ladder" not in o.tables:
        ladder = []
    optimizers = OPTIMIZERS if "optimizers" in o.tables else ()
    needed = {f"{model}_{e['program']}": None for e in ladder + ablated}
    if optimizers:
        needed[f"{model}_optimizers"] = None
    programs.build(list(needed))

    def run_of(e):
        label = ("without " if e["without"] else "") + e["name"]
        return Run(label, programs.command(f"{model}_{e['program']}", e["number"], *flags))

    climbed = [(e, run_of(e)) for e in ladder]
    take_turns([r for _, r in climbed], o.rounds, f"{model} ladder")
    wrong = differences([r for _, r in climbed], climbed)
    figures = [(e["name"], r.figures(tokens)) for e, r in climbed]
    if climbed and (gpu := climbed[0][1].rounds[0]["machine"]):
        print(f"\non {gpu}", flush=True)
    if "ladder" in o.tables and figures:
        heading(f"{model}: {tokens} tokens a step, one technique more a rung; "
                "ratios of time, processor time and step memory", "  to the rung before      to the first")
        before = None
        for name, f in figures:
            first = figures[0][1]
            line(name, f, *(f[k] / b[k] for b in (before, first) if before for k in RATIOS))
            add_rows(rows, f"{model}/{name}", f, before, first if before else None)
            before = f

    if ablated:
        best = climbed[-1][1]
        others = [run_of(e) for e in ablated]
        best.rounds.clear()
        take_turns([best, *others], o.rounds, f"{model} ablation")
        whole_figures = best.figures(tokens)
        heading(f"{model}: all techniques but one; ratios of time, processor time and step memory", "to all of them")
        line("all", whole_figures)
        for run in others:
            f = run.figures(tokens)
            line(run.label.replace("without ", "- "), f, *(f[k] / whole_figures[k] for k in RATIOS))
            add_rows(rows, f"{model}/{run.label}", f, whole_figures, None)
        wrong += differences(others, [])

    if optimizers:
        runs = [Run(name, programs.command(f"{model}_optimizers", name, *flags)) for name in optimizers]
        take_turns(runs, o.rounds, f"{model} optimizers")
        base = next(r for r in runs if r.label == "adamw").figures(tokens)
        heading(f"{model}: optimizers, each at its own rate; state in bytes a parameter",
                "state  to adamw's: time, processor time, step memory")
        for run in runs:
            f = run.figures(tokens)
            line(run.label, f, f["state"], *(f[k] / base[k] for k in RATIOS))
            add_rows(rows, f"{model}/optimizer {run.label}", f, base, None)
            rows.append({"name": f"{model}/optimizer {run.label}: state", "value": f["state"], "unit": "B a parameter"})
        wrong += differences(runs, [])
    return figures if "ladder" in o.tables else [], [f"{model}/{w}" for w in wrong]


def picture(ladders, where):
    """The ladders as bars: tokens a second, and memory of a step. In the colours of the memory pages."""
    left, bar, height, gap = 170, 250, 18, 40
    total = 70 + sum(gap + 24 + len(f) * (height + 6) for _, f in ladders)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{total}" viewBox="0 0 860 {total}" '
           'font-family="sans-serif" font-size="13" fill="#333">', f'<rect width="860" height="{total}" fill="white"/>',
           '<text x="430" y="28" text-anchor="middle" font-size="17" font-weight="bold">'
           'One technique more a rung</text>']
    y = 44
    for model, figures in ladders:
        y += gap
        svg.append(f'<text x="{left - 10}" y="{y}" text-anchor="end" font-weight="bold">{model}</text>')
        columns = (("tokens", "tokens a second", "#0072b2", left),
                   ("step", "memory of a step, MiB", "#e69f00", left + bar + 90))
        for key, what, _, x in columns:
            svg.append(f'<text x="{x}" y="{y}">{what}</text>')
        y += 10
        most = {key: max(f[key] for _, f in figures) for key, *_ in columns}
        for name, f in figures:
            svg.append(f'<text x="{left - 10}" y="{y + 14}" text-anchor="end">{name}</text>')
            for key, _, color, x in columns:
                wide = bar * f[key] / most[key]
                svg.append(f'<rect x="{x}" y="{y}" width="{wide:.1f}" height="{height}" fill="{color}"/>'
                           f'<text x="{x + wide + 6:.1f}" y="{y + 14}">{f[key]:.0f}</text>')
            y += height + 6
        y += 14
    svg.append("</svg>")
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text("\n".join(svg) + "\n", encoding="utf-8")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=MODELS_ON, default="cpu")
    parser.add_argument("--programs", default="", help="a folder that has the programs; default: they are built")
    parser.add_argument("--model", nargs="+", choices=MODELS,
                        help="default: " + "; ".join(f"{d}: {' '.join(m)}" for d, m in MODELS_ON.items()))
    parser.add_argument("--rungs", default="", help="names of the ladder, with commas between; default: all")
    parser.add_argument("--tables", default="",
                        help=f"of {', '.join(TABLES)}; default: all, or with --rungs the ladder")
    parser.add_argument("--steps", type=int, default=0, help="default: by model")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="compilers at a time; default: one a core")
    parser.add_argument("--quick", action="store_true", help="two steps of each on a tiny model")
    o = parser.parse_args()
    if o.rounds < 1 or o.steps < 0 or o.jobs < 1:
        parser.error("--rounds and --jobs must be 1 or more, --steps not negative")
    o.model = o.model or MODELS_ON[o.device]
    if o.quick:
        o.model, o.rounds = ["tiny"], 1
    if o.device == "cpu" and "gpt2" in o.model:
        parser.error("--model gpt2 is for --device cuda: its naive rung takes tens of gigabytes, and a step minutes")
    programs = Programs(o)
    programs.build(["list"])
    o.all = output_of(programs.command("list"))
    names = [n for n in o.rungs.split(",") if n]
    known = list(dict.fromkeys(e["name"] for e in o.all))
    for n in names:
        if n not in known:
            parser.error(f"--rungs: no rung '{n}'; there are {', '.join(known)}")
    o.tables = [t for t in o.tables.split(",") if t] or (["ladder"] if names else list(TABLES))
    for t in o.tables:
        if t not in TABLES:
            parser.error(f"--tables: no table '{t}'; there are {', '.join(TABLES)}")
    return o, programs, [e for e in o.all if not names or e["name"] in names]


def main():
    o, programs, chosen = read_options()
    print(machine() + ("" if o.quick else "; medians over steps"), flush=True)
    rows, ladders, wrong = [], [], []
    for model in o.model:
        figures, problems = measure(model, chosen, o, programs, rows)
        wrong += problems
        if figures:
            ladders.append((model, figures))
    write_rows(rows, pathlib.Path(os.environ.get("GRADUS_BENCH_JSON", ROOT / "build/bench/train.json")))
    if ladders:
        name = f"build/bench/train{'' if o.device == 'cpu' else '-' + o.device}.svg"
        picture(ladders, ROOT / name)
        print(f"\npicture: {name}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
