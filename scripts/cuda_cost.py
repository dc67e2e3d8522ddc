#!/usr/bin/env python3
"""Prints what the kernels of a GPU program move, from counters of its launches.

    scripts/cuda_cost.py COUNTERS.jsonl [PTXAS.log]
    scripts/cuda_cost.py --bound LAYERS,CONTEXT,SEQUENCES=COUNTERS.jsonl ...

COUNTERS has a JSON object a launch: "kernel" (its name), "blocks", "sectors" (32-byte sectors of global memory that
warps asked for), "global_bytes_requested" (by threads), "unique_bytes_read" and "unique_bytes_written" (each byte once:
what DRAM has to move at least), "unique_sectors_read" and "unique_sectors_written", "bank_conflict_ways",
"active_lanes_per_warp_instruction", "tensor_macs". PTXAS.log is what `nvcc -Xptxas -v` said of the program, and adds
registers and spills.

Columns: launches; MB that DRAM has to move at least; how often that goes over the second-level cache's wires (sectors
asked for / unique sectors); what share of those sectors' bytes is used; ways of bank conflicts; lanes at work; the
fewest blocks of a launch; registers and bytes of spills; microseconds at the bandwidth of an A100, H100 and H200.

--bound: how many tokens a second GPT-2 124M can be trained with at context 1024, 524288 tokens a step, from the
counters of four small steps (bench_cuda_gpt_step 0 with GPT_LAYERS and GPT_CONTEXT of two values each). Bytes are
linear in layers and tokens, attention's products quadratic in the context; those of cuBLASLt are counted by hand, 6 for
a weight and token. Nothing is taken to overlap. "At peaks" is what no step of these kernels can pass; "at best-shape
rates" puts what products and attention have been seen to reach, at the shapes that suit them best, in their place: also
more than a whole step reaches, so neither is to be held against a measured total.
"""
import collections
import json
import re
import sys

BANDWIDTH = {"A100": 2.04e12, "H100": 3.35e12, "H200": 4.8e12}  # bytes a second, published
# FLOP a second in bf16: published; products (stas00/ml-engineering; A100: 0.8 of the peak); attention
# (FlashAttention-2's figures for heads of 64).
PEAK = {"A100": 312e12, "H100": 989e12, "H200": 989e12}
PRODUCTS = {"A100": 250e12, "H100": 794e12, "H200": 794e12}
ATTENTION = {"A100": 170e12, "H100": 262e12, "H200": 262e12}
GPT2 = {"layers": 12, "width": 768, "vocabulary": 50257, "context": 1024, "tokens": 524288}


def short(name):
    name = name.split("(")[0] if not name.startswith("void ") else name[5:]
    return name.split("<")[0].split("::")[-1]


def resources(log):
    """Most registers, and most bytes of spills, of each kernel's instantiations."""
    found = collections.defaultdict(lambda: (0, 0))
    name, spills = None, 0
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            if at := re.search(r"Compiling entry function '(\S+)'", line):
                known = re.findall(r"cuda_kit\d+([a-z0-9_]+?_kernel)|\d+(DeviceRadix[A-Za-z]+Kernel)", at.group(1))
                name = (known[0][0] or known[0][1]) if known else None
            elif at := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
                spills = int(at.group(1)) + int(at.group(2))
            elif (at := re.search(r"Used (\d+) registers", line)) and name:
                most = found[name]
                found[name] = (max(most[0], int(at.group(1))), max(most[1], spills))
    return found


def second_step(path):
    """Bytes that its kernels move, at least, and multiplications of its tensor cores. The first step makes states and
    caches."""
    with open(path, encoding="utf-8") as lines:
        launches = [one for one in map(json.loads, lines) if "kernel" in one]
    last = [i for i, one in enumerate(launches) if short(one["kernel"]) == "element_step_kernel"]
    if len(last) != 2:
        sys.exit(f"cuda_cost.py: {path} has {len(last)} steps of the optimizer; bench_cuda_gpt_step 0 makes 2")
    step = launches[last[0] + 1:last[1] + 1]
    moved = sum(one["unique_bytes_read"] + one["unique_bytes_written"] for one in step)
    return moved, sum(one["tensor_macs"] for one in step)


def solve(rows, values):
    """Gauss-Jordan."""
    n = len(values)
    m = [list(map(float, row)) + [float(value)] for row, value in zip(rows, values)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(m[r][i]))
        if m[pivot][i] == 0:
            sys.exit("cuda_cost.py: --bound takes steps of two numbers of layers with two contexts each")
        m[i], m[pivot] = m[pivot], m[i]
        m[i] = [x / m[i][i] for x in m[i]]
        for r in range(n):
            if r != i:
                m[r] = [x - m[r][i] * y for x, y in zip(m[r], m[i])]
    return [row[n] for row in m]


def bound(steps):
    found = {}
    for step in steps:
        sizes, _, path = step.partition("=")
        found[tuple(map(int, sizes.split(",")))] = second_step(path)
    if len(found) != 4:
        sys.exit("cuda_cost.py: --bound takes four steps, such as 1,128,2=one.jsonl")
    layers, context, tokens = GPT2["layers"], GPT2["context"], GPT2["tokens"]
    move = solve([[1, l, t * b, l * t * b] for l, t, b in found], [bytes_ for bytes_, _ in found.values()])
    once, per_token = move[0] + move[1] * layers, move[2] + move[3] * layers
    # Of attention alone: macs = layers * sequences * (a * context + b * context^2).
    (l1, t1, b1), m1 = min(found), found[min(found)][1]
    (l2, t2, b2), m2 = max(found), found[max(found)][1]
    a, b = solve([[t1, t1 * t1], [t2, t2 * t2]], [m1 / l1 / b1, m2 / l2 / b2])
    attention = 2 * layers * (a + b * context)
    products = 6 * (12 * layers * GPT2["width"] ** 2 + GPT2["width"] * GPT2["vocabulary"])
    print(f"a token: {per_token / 1e6:.3f} MB moved and {once / tokens / 1e6:.4f} MB more for its share of the "
          f"weights; {products / 1e9:.3f} GFLOP of products, {attention / 1e9:.3f} of attention")
    print(f"{'':6} {'':19} {'memory us':>10} {'products us':>12} {'attention us':>13} {'tokens/s':>10}")
    for gpu, rate in BANDWIDTH.items():
        for name, product_rate, attention_rate in (("at peaks", PEAK[gpu], PEAK[gpu]),
                                                   ("at best-shape rates", PRODUCTS[gpu], ATTENTION[gpu])):
            parts = [(per_token + once / tokens) / rate, products / product_rate, attention / attention_rate]
            print(f"{gpu:6} {name:19} {parts[0] * 1e6:10.2f} {parts[1] * 1e6:12.2f} {parts[2] * 1e6:13.2f} "
                  f"{1 / sum(parts):10.0f}")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if sys.argv[1] == "--bound":
        return bound(sys.argv[2:])
    kernels = collections.OrderedDict()
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            if "kernel" not in one:
                continue
            k = kernels.setdefault(short(one["kernel"]), collections.Counter())
            k["launches"] += 1
            k["bytes"] += one["unique_bytes_read"] + one["unique_bytes_written"]
            k["sectors"] += one["sectors"]
            k["unique_sectors"] += one["unique_sectors_read"] + one["unique_sectors_written"]
            k["requested"] += one["global_bytes_requested"]
            k["used"] += min(one["global_bytes_requested"], 32 * one["sectors"])
            k["ways"] = max(k["ways"], one["bank_conflict_ways"])
            k["lanes"] += one["active_lanes_per_warp_instruction"]
            k["blocks"] = min(k["blocks"] or one["blocks"], one["blocks"])
    use = resources(sys.argv[2]) if len(sys.argv) > 2 else {}
    head = (f"{'kernel':34} {'launches':>8} {'MB':>9} {'again':>6} {'used':>6} {'ways':>5} {'lanes':>6} "
            f"{'blocks':>7} {'regs':>5} {'spills':>6}")
    print(head + "".join(f" {gpu + ' us':>9}" for gpu in BANDWIDTH))
    total = collections.Counter()
    for name, k in sorted(kernels.items(), key=lambda item: -item[1]["bytes"]):
        regs, spills = use.get(name, ("-", "-"))
        row = (f"{name[:34]:34} {k['launches']:8d} {k['bytes'] / 1e6:9.3f} "
               f"{k['sectors'] / max(1, k['unique_sectors']):6.2f} {k['used'] / max(1, 32 * k['sectors']):6.2f} "
               f"{k['ways']:5.2f} {k['lanes'] / k['launches']:6.1f} {k['blocks']:7d} {regs:>5} {spills:>6}")
        print(row + "".join(f" {k['bytes'] / rate * 1e6:9.2f}" for rate in BANDWIDTH.values()))
        total["launches"] += k["launches"]
        total["bytes"] += k["bytes"]
    print(f"{'all':34} {total['launches']:8d} {total['bytes'] / 1e6:9.3f}" + " " * (len(head) - 53)
          + "".join(f" {total['bytes'] / rate * 1e6:9.2f}" for rate in BANDWIDTH.values()))


if __name__ == "__main__":
    main()
