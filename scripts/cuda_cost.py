#!/usr/bin/env python3
"""Prints what the kernels of a GPU program move, from counters of its launches.

    scripts/cuda_cost.py COUNTERS.jsonl [PTXAS.log]

COUNTERS has a JSON object a launch: "kernel" (its name), "blocks", "sectors" (32-byte sectors of global memory that warps asked for),
"global_bytes_requested" (by threads), "unique_bytes_read" and "unique_bytes_written" (each byte once: what DRAM has to move at least),
"unique_sectors_read" and "unique_sectors_written", "bank_conflict_ways", "active_lanes_per_warp_instruction", "tensor_macs". PTXAS.log is what
`nvcc -Xptxas -v` said of the program, and adds registers and spills.

Columns: launches; MB that DRAM has to move at least; how often that goes over the second-level cache's wires (sectors asked for / unique
sectors); what share of those sectors' bytes is used; ways of bank conflicts; lanes at work; the fewest blocks of a launch; registers and
bytes of spills; microseconds at the bandwidth of an A100, H100 and H200.
"""
import collections
import json
import re
import sys

BANDWIDTH = {"A100": 2.04e12, "H100": 3.35e12, "H200": 4.8e12}  # bytes a second, published


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


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
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
    head = f"{'kernel':34} {'launches':>8} {'MB':>9} {'again':>6} {'used':>6} {'ways':>5} {'lanes':>6} {'blocks':>7} {'regs':>5} {'spills':>6}"
    print(head + "".join(f" {gpu + ' us':>9}" for gpu in BANDWIDTH))
    total = collections.Counter()
    for name, k in sorted(kernels.items(), key=lambda item: -item[1]["bytes"]):
        regs, spills = use.get(name, ("-", "-"))
        row = f"{name[:34]:34} {k['launches']:8d} {k['bytes'] / 1e6:9.3f} {k['sectors'] / max(1, k['unique_sectors']):6.2f} "
        row += f"{k['used'] / max(1, 32 * k['sectors']):6.2f} {k['ways']:5.2f} {k['lanes'] / k['launches']:6.1f} {k['blocks']:7d} {regs:>5} {spills:>6}"
        print(row + "".join(f" {k['bytes'] / rate * 1e6:9.2f}" for rate in BANDWIDTH.values()))
        total["launches"] += k["launches"]
        total["bytes"] += k["bytes"]
    print(f"{'all':34} {total['launches']:8d} {total['bytes'] / 1e6:9.3f}" + " " * (len(head) - 53)
          + "".join(f" {total['bytes'] / rate * 1e6:9.2f}" for rate in BANDWIDTH.values()))


if __name__ == "__main__":
    main()
