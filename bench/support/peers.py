"""What benchmarks share that compare gradus with programs of other projects, or programs of its own with each other."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import bench_report  # noqa: E402

machine = bench_report.machine


def has_packages(python, packages):
    try:
        done = subprocess.run([python, "-c", "import " + ", ".join(packages)], capture_output=True, check=False)
        return done.returncode == 0
    except OSError:
        return False


VENV = ROOT / "build" / "peers"


def installed_python(packages):
    """A Python that has the packages, or None."""
    named = os.environ.get("GRADUS_PEERS_PYTHON")
    if named:
        if has_packages(named, packages):
            return named
        print(f"GRADUS_PEERS_PYTHON={named} has not all of {', '.join(packages)}: looking further", flush=True)
    for python in (str(VENV / "bin" / "python"), sys.executable):
        if has_packages(python, packages):
            return python
    return None


def find_python(packages):
    """A Python that has the packages; installs them if there is none."""
    found = installed_python(packages)
    if found:
        return found
    venv, own = VENV, str(VENV / "bin" / "python")
    print(f"making a Python environment with {', '.join(packages)} in {venv.relative_to(ROOT)} "
          "(once, a large download)", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([own, "-m", "pip", "install", "--quiet", *packages], check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"that failed: {e}", flush=True)
    if has_packages(own, packages):
        return own
    sys.exit(f"no Python with {', '.join(packages)}: set GRADUS_PEERS_PYTHON to one")


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


def versions(python, packages):
    code = "; ".join(f"import {p}; print('{p}', {p}.__version__)" for p in packages)
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.split("\n")


def show(value, form="{:.0f}"):
    return form.format(value) if value is not None else "-"


def ratio(a, b):
    return a / b if a is not None and b else None


def print_table(head, table, left=2):
    """The first `left` columns to the left, the others to the right."""
    widths = [max(len(line[i]) for line in [head] + table) for i in range(len(head))]
    for line in [head] + table:
        cells = (cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths)))
        print("  ".join(cells).rstrip())


def write_rows(rows, name):
    """Where scripts/bench.sh expects them, or into build/bench/NAME.json."""
    bench_report.write_rows(rows, os.environ.get("GRADUS_BENCH_JSON", ROOT / "build" / "bench" / f"{name}.json"))
