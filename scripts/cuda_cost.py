#!/usr/bin/env python3
"""Prints what the kernels of a GPU program move, from counters of its launches.

    scripts/cuda_cost.py COUNTERS.jsonl [PTXAS.log]
    scripts/cuda_cost.py --bound EXPECTED.json ATTENTION.jsonl LAYERS,CONTEXT,SEQUENCES,VOCABULARY=COUNTERS.jsonl ...

COUNTERS has a JSON object a launch: "kernel" (its name), "blocks", "sectors" (32-byte sectors of global memory that
warps asked for), "global_bytes_requested" (by threads), "unique_bytes_read" and "unique_bytes_written" (each byte once:
what DRAM has to move at least), "unique_sectors_read" and "unique_sectors_written", "bank_conflict_ways",
"active_lanes_per_warp_instruction", "tensor_macs". PTXAS.log is what `nvcc -Xptxas -v` said of the program, and adds
registers and spills.

Columns: launches; MB that DRAM has to move at least; how often that goes over the second-level cache's wires (sectors
asked for / unique sectors); what share of those sectors' bytes is used; ways of bank conflicts; lanes at work; the
fewest blocks of a launch; registers and bytes of spills; microseconds at the bandwidth of an A100, H100 and H200.

--bound: what a step of GPT-2 124M takes at least, 16 sequences of 1024 tokens, kernel by kernel, from the counters of
small steps (bench_cuda_gpt_step 0 with other GPT_LAYERS, GPT_BATCH and GPT_VOCABULARY; 1 and 2, 27 and 54, 512 and
1024, contexts of 64), and those of attention on one head of 64 and 1024 tokens (tests/cuda/budgets/kernels.cu, the
first launch of each kernel). Attention's backward is by tiles or by whole heads, as the GPU's multiprocessors and
second-level cache make it (attention_launches::head_blocks). A kernel takes the longest of three times: of its bytes,
of its instructions (PTX; four a clock and multiprocessor), and of its tensor cores. What all but attention do is linear
in layers, vocabulary and tokens. Products of cuBLASLt have the rates that llm.c reaches. Nothing overlaps.
EXPECTED.json gets the kernels' figures: scripts/gpu-check.sh holds them against a GPU's. Nothing published reaches such
a bound: llm.c's step is at 0.88 of it, kernels of attention at this size at 0.6 to 0.8.
"""
import collections
import json
import re
import sys

BANDWIDTH = {"A100": 2.04e12, "H100": 3.35e12, "H200": 4.8e12}  # bytes a second, published
PEAK = {"A100": 312e12, "H100": 989e12, "H200": 989e12}  # FLOP a second in bf16, published
# Products of cuBLASLt in llm.c's steps.
PRODUCTS = {"A100": 240e12, "H100": 540e12, "H200": 540e12}
ISSUE = {"A100": 108 * 4 * 1.41e9, "H100": 132 * 4 * 1.755e9, "H200": 132 * 4 * 1.755e9}  # instructions of warps
# Attention's backward at this size, and which GPUs take whole heads: tests/cuda/attention.cu asks the library.
BACKWARD = {"tiles": ["tensor_attention_dq_kernel", "tensor_attention_dkv_kernel"],
            "whole heads": ["tensor_attention_heads_kernel"]}
WHOLE_HEADS = ["A100"]
GPT2 = {"layers": 12, "width": 768, "vocabulary": 50257, "context": 1024, "tokens": 16 * 1024}


def short(name):
    """A kernel's name alone: "void gradus::cuda_kit::map_kernel<(int)4, float>(float*)" is map_kernel."""
    return re.split("[<(]", name[5:] if name.startswith("void ") else name)[0].split("::")[-1] or name


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


def kernels_of(path):
    with open(path, encoding="utf-8") as lines:
        return [one for one in map(json.loads, lines) if "kernel" in one]


def figures(one):
    """What a launch's time is bounded by."""
    return {"bytes": one["unique_bytes_read"] + one["unique_bytes_written"], "instructions": one["warp_instructions"],
            "flop": 2 * one["tensor_macs"]}


def seconds(kernel, gpu):
    """The longest of three times."""
    return max(kernel["bytes"] / BANDWIDTH[gpu], kernel["instructions"] / ISSUE[gpu], kernel["flop"] / PEAK[gpu])


def steps_of(names):
    """Where the steps begin and end in the names of launches. The optimizer's come last, one for every 50 tensors."""
    last = "element_step_kernel"
    ends = [i + 1 for i, name in enumerate(names) if name == last and names[i + 1:i + 2] != [last]]
    return list(zip([0, *ends], ends))


def second_step(path):
    """Its launches, without attention's. The first step makes states and caches."""
    launches = kernels_of(path)
    steps = steps_of([short(one["kernel"]) for one in launches])
    if len(steps) != 2:
        sys.exit(f"cuda_cost.py: {path} has {len(steps)} steps of the optimizer; bench_cuda_gpt_step 0 makes 2")
    begin, end = steps[1]
    return [one for one in launches[begin:end] if "tensor_attention" not in one["kernel"]]


def expected_on(kernels, gpu):
    """Those of the kernels' figures that the GPU launches."""
    others = BACKWARD["tiles" if gpu in WHOLE_HEADS else "whole heads"]
    return {name: of for name, of in kernels.items() if name not in others}


def least_squares(rows, values):
    """By the normal equations and Gauss-Jordan; columns are scaled to 1 at most."""
    n = len(rows[0])
    scale = [max(abs(row[i]) for row in rows) for i in range(n)]
    rows = [[x / by for x, by in zip(row, scale)] for row in rows]
    m = [[sum(row[i] * row[j] for row in rows) for j in range(n)] + [sum(row[i] * v for row, v in zip(rows, values))]
         for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(m[r][i]))
        if abs(m[pivot][i]) < 1e-12:
            sys.exit("cuda_cost.py: --bound takes steps with two values each of layers, vocabulary and sequences")
        m[i], m[pivot] = m[pivot], m[i]
        m[i] = [x / m[i][i] for x in m[i]]
        for r in range(n):
            if r != i:
                m[r] = [x - m[r][i] * y for x, y in zip(m[r], m[i])]
    return [row[n] / by for row, by in zip(m, scale)]


def bound(expected_path, attention_path, steps):
    found = {}
    for step in steps:
        sizes, _, path = step.partition("=")
        found[tuple(map(int, sizes.split(",")))] = second_step(path)
    layers, width, vocabulary, tokens = GPT2["layers"], GPT2["width"], GPT2["vocabulary"], GPT2["tokens"]

    def terms(l, v, t):
        return [1, l, v, t, t * l, t * v]
    rows = [terms(l, v, t * b) for l, t, b, v in found]
    whole = terms(layers, vocabulary, tokens)
    kernels = {}
    for name in sorted({short(one["kernel"]) for launches in found.values() for one in launches}):
        of_name = [[figures(one) for one in launches if short(one["kernel"]) == name] for launches in found.values()]
        kernels[name] = {}
        for key in ("bytes", "instructions", "flop"):
            values = [sum(one[key] for one in launches) for launches in of_name]
            fitted = sum(x * y for x, y in zip(least_squares(rows, values), whole))
            kernels[name][key] = max(0, round(fitted))
    attention = {}
    for one in kernels_of(attention_path):
        attention.setdefault(short(one["kernel"]), one)
    for name in ["tensor_attention_kernel", *sum(BACKWARD.values(), [])]:
        if name not in attention:
            sys.exit(f"cuda_cost.py: {attention_path} has no launch of {name}")
        of_heads = layers * width // 64 * tokens // GPT2["context"]
        kernels[name] = {key: value * of_heads for key, value in figures(attention[name]).items()}
    products = 6 * (12 * layers * width * width + width * vocabulary) * tokens
    with open(expected_path, encoding="utf-8") as file:
        expected = json.load(file)
    expected.update(tokens=tokens, products_flop=products, kernels=kernels)
    with open(expected_path, "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")
    print(f"{'microseconds a token':44}" + "".join(f"{gpu:>9}" for gpu in BANDWIDTH))
    times = {name: [seconds(k, gpu) if name in expected_on(kernels, gpu) else 0 for gpu in BANDWIDTH]
             for name, k in kernels.items()}
    times["products"] = [products / PRODUCTS[gpu] for gpu in BANDWIDTH]
    times["all"] = [sum(column) for column in zip(*times.values())]
    for name, row in sorted(times.items(), key=lambda item: item[1]):
        print(f"{name:44}" + "".join(f"{t / tokens * 1e6:9.4f}" for t in row))
    print(f"{'tokens a second':44}" + "".join(f"{tokens / t:9.0f}" for t in times["all"]))


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    if sys.argv[1] == "--bound":
        if len(sys.argv) < 10:
            sys.exit(__doc__)
        return bound(sys.argv[2], sys.argv[3], sys.argv[4:])
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
