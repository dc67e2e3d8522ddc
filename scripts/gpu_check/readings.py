"""What a program printed, beside what was expected of it: what call.py's steps read. A reading takes the text and
returns {"came": ..., "expected": ..., "ok": ..., "tables": [...]}, all of them optional; ok is true unless it says
otherwise. A table is {"title", "columns", "rows"}."""
import collections
import csv
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cuda_cost  # noqa: E402

EXPECTED = json.loads((pathlib.Path(__file__).parent / "expected.json").read_text(encoding="utf-8"))
PRODUCT = re.compile(r"gemm|cutlass|nvjet|xmma|splitk|cublas", re.IGNORECASE)  # kernels of cuBLASLt, by their names


def known_gpu(name):
    """The row of cuda_cost.py's tables for a GPU, or None."""
    return next((known for known in cuda_cost.BANDWIDTH if known in name), None)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return {"came": lines[-1][:160] if lines else "nothing was printed"}


def tests(text, _):
    """A test passes where it finds no GPU, and says so."""
    found = re.search(r"test cases: .*", text)
    skipped = re.search(r"gradus skipped: .*", text)
    return {"came": "; ".join(part.group(0) for part in (found, skipped) if part),
            "ok": found is not None and "(no GPU:" not in text}


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def first_loss(model):
    """Of bf16, so that products differ from the CPU's in their last bits."""
    expected = EXPECTED["first_loss"][model]

    def read(text, _):
        found = re.search(r"^first loss (\S+)", text, re.MULTILINE)
        came = float(found.group(1)) if found else float("nan")
        return {"came": f"first loss {came:.4f}", "expected": f"{expected:.4f} (the CPU's)",
                "ok": abs(came - expected) < 0.002}
    return read


def step_bound_us(gpu):
    """Of a step of 16 sequences, products at the rate that llm.c reaches."""
    return 1e6 * (sum(cuda_cost.seconds(k, gpu) for k in cuda_cost.expected_on(EXPECTED["kernels"], gpu).values())
                  + EXPECTED["products_flop"] / cuda_cost.PRODUCTS[gpu])


def step(model):
    """Tokens a second, eager and as a graph."""
    def read(text, gpu):
        result = first_loss(model)(text, gpu) if model else {}
        rates = dict(re.findall(r"^(eager|graph) +(\d+) tokens/s", text, re.MULTILINE))
        peak = re.search(r"peak (\d+) MiB", text)
        came = [result["came"]] if model else []
        came += [f"{how} {int(rate):,} tokens/s" for how, rate in rates.items()]
        came += [f"peak {peak.group(1)} MiB"] if peak else []
        expected = [result["expected"]] if model else []
        if gpu:
            most = EXPECTED["tokens"] / step_bound_us(gpu) * 1e6
            expected.append(f"bound {most:,.0f} tokens/s" + ("" if model else " by 16 sequences"))
            came += [f"graph at {int(rates['graph']) / most:.0%} of the bound"] if "graph" in rates else []
        return {"came": "; ".join(came), "expected": "; ".join(expected),
                "ok": result.get("ok", True) and len(rates) == 2}
    return read


def kernels(text, gpu):
    """ncu's CSV of steps: the last one, kernel by kernel."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return {"came": "no table of ncu's", "ok": False}
    launches = collections.OrderedDict()
    for row in csv.DictReader(lines[begin:]):
        if row.get("Metric Name"):
            one = launches.setdefault(row["ID"], {"name": cuda_cost.short(row["Kernel Name"])})
            one[row["Metric Name"]] = float(row["Metric Value"].replace(",", "") or 0)
    launches = list(launches.values())
    steps = cuda_cost.steps_of([one["name"] for one in launches])
    if not steps:
        return {"came": f"{len(launches)} launches, none of the optimizer", "ok": False}
    found = {}
    for one in launches[slice(*steps[-1])]:
        name = "products (cuBLASLt)" if PRODUCT.search(one["name"]) else one["name"]
        k = found.setdefault(name, collections.Counter())
        k["launches"] += 1
        k["us"] += one.get("gpu__time_duration.sum", 0) / 1e3
        k["bytes"] += one.get("dram__bytes_read.sum", 0) + one.get("dram__bytes_write.sum", 0)
        k["instructions"] += one.get("smsp__inst_executed.sum", 0)
    all_us = sum(k["us"] for k in found.values())
    rows = []
    for name, k in sorted(found.items(), key=lambda entry: -entry[1]["us"]):
        expected, least = EXPECTED["kernels"].get(name), None
        if gpu and name == "products (cuBLASLt)":
            least = 1e6 * EXPECTED["products_flop"] / cuda_cost.PRODUCTS[gpu]
        elif gpu and expected:
            least = 1e6 * cuda_cost.seconds(expected, gpu)
        rows.append([name, k["launches"], round(k["us"]), f"{k['us'] / all_us:.1%}" if all_us else "",
                     round(least) if least else "",
                     round(k["us"] / least, 2) if least and least >= 1 else "",
                     round(k["bytes"] / 1e6), round(expected["bytes"] / 1e6) if expected else "",
                     round(k["instructions"] / 1e6, 1), round(expected["instructions"] / 1e6, 1) if expected else ""])
    backward = [how for how, names in cuda_cost.BACKWARD.items() if set(names) <= set(found)]
    missing = sorted(set(cuda_cost.expected_on(EXPECTED["kernels"], gpu)) - set(found)) if gpu else []
    return {"came": f"{sum(k['launches'] for k in found.values())} launches, {all_us / 1e3:.2f} ms; attention's "
                    f"backward by {' and '.join(backward) or 'other kernels'}"
                    + (f"; not launched: {', '.join(missing)}" if missing else ""),
            "expected": f"{step_bound_us(gpu) / 1e3:.2f} ms at the bound" if gpu else "",
            "tables": [{"title": "A step of GPT-2 124M, 16 sequences, kernel by kernel",
                        "columns": ["kernel", "launches", "us", "share", "bound us", "of the bound", "MB",
                                    "expected MB", "M instructions", "expected (PTX)"], "rows": rows}]}


def rates(text, gpu):
    """bench_cuda's lines."""
    rows = [[m.group(1).strip(), m.group(2), m.group(3), m.group(4) or ""] for m in re.finditer(
        r"^(\S.*?) +([0-9.]+) (GB/s|TFLOP/s)(?: +(\d+) % of the copy)?", text, re.MULTILINE)]
    copied = next((float(row[1]) for row in rows if row[0] == "device copy"), 0)
    result = {"came": f"copy {copied:,.0f} GB/s", "ok": copied > 0,
              "tables": [{"title": "Rates", "columns": ["what", "value", "unit", "% of the copy"], "rows": rows}]}
    if gpu:
        published = cuda_cost.BANDWIDTH[gpu] / 1e9
        result["expected"] = f"about 90 % of the published {published:,.0f} GB/s"
        result["ok"] = copied > 0.6 * published
    return result


def products(text, _):
    """Of each product and epilogue what the heuristics name first, the fastest, and the fastest with the same bits."""
    cases = collections.OrderedDict()
    for one in json_lines(text):
        cases.setdefault((one["product"], one["epilogue"]), []).append(one)
    rows = []
    for (product, besides), tried in cases.items():
        ran = [one for one in tried if one.get("us")]
        if not ran:
            rows.append([product, besides, 0] + ["no algorithm"] + [""] * 5)
            continue
        best = min(ran, key=lambda one: one["us"])
        same = min((one for one in ran if one["same_bits"]), key=lambda one: one["us"], default=None)
        rows.append([product, besides, len(ran), ran[0]["us"], best["us"], same["us"] if same else "none",
                     best["tflops"], f"{best['split_k']} / {best['reduction']}",
                     sum(not one["same_bits"] for one in ran)])
    return {"came": f"{len(cases)} products, {sum(row[2] for row in rows)} algorithms", "ok": bool(rows),
            "expected": "540 TFLOP/s is what llm.c reaches on an H100",
            "tables": [{"title": "Products of a block, 65536 tokens",
                        "columns": ["product", "epilogue", "algorithms", "first us", "fastest us",
                                    "fastest of the same bits us", "TFLOP/s", "split k / reduction", "vary in bits"],
                        "rows": rows}]}


def torch(text, _):
    one = json_lines(text)[-1]
    return {"came": f"{one['tok_s']:,.0f} tokens/s, peak {one['peak_mib']} MiB (PyTorch {one['torch']})"}


def bert(text, _):
    one = json_lines(text)[-1]
    guide = f"{one['guide_samples_s']:.2f} samples/s, {one['guide_mb']:,.0f} MB: a V100's, by the guide"
    return {"came": f"{one['samples_s']:.2f} samples/s, {one['planned'] / 1e6:,.0f} MB, loss {one['loss']:.4f}",
            "expected": guide if one["guide_samples_s"] else ""}


def trained(text, _):
    """The last line of a run's log."""
    found = re.findall(r'"(step|loss|tokens_per_second)": ([0-9.]+)', text.splitlines()[-1] if text.strip() else "")
    return {"came": ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found), "ok": bool(found)}
