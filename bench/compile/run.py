#!/usr/bin/env python3
"""What including gradus costs: seconds and peak memory of compiling with -O2, beside Eigen alone where it is installed.

    python3 bench/compile/run.py [--compiler g++] [--runs 3]

Each source is compiled to an object, several times, without ccache; the rows are the median time and the largest peak.
ratio is against including <Eigen/Dense>.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import bench_report  # noqa: E402


def target_flags(source):
    """The include paths, definitions and machine options that CMake compiles `source` with; None if it does not."""
    commands = ROOT / "build" / "release" / "compile_commands.json"
    if not commands.exists():
        return None
    for entry in json.loads(commands.read_text()):
        if pathlib.Path(entry["file"]) != source:
            continue
        words = shlex.split(entry["command"])
        flags = [w for w in words if w.startswith(("-I", "-D", "-std", "-m", "-f"))]
        flags += [f for i, w in enumerate(words) if w == "-isystem" for f in (w, words[i + 1])]
        return flags
    return None


def default_flags():
    flags = ["-std=c++20", f"-I{ROOT / 'include'}", f"-I{ROOT / 'examples'}"]
    return flags


def eigen_flags():
    """Where Eigen is; None if it is not installed."""
    for prefix in ("/usr/include/eigen3", "/usr/local/include/eigen3"):
        if os.path.isdir(prefix):
            return ["-std=c++20", "-isystem", prefix]
    return None


def compile_once(compiler, flags, source, folder):
    """Seconds and peak bytes of one compilation."""
    command = [compiler, "-O2", *flags, "-O2", "-c", str(source), "-o", str(pathlib.Path(folder) / "out.o")]
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, stderr=errors, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.stderr.write(errors.read().decode(errors="replace")[:4000])
            sys.exit(f"compile: {compiler} could not compile {source}")
    return seconds, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs {arguments.runs}: at least 1")

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        eigen = folder / "eigen.cpp"
        eigen.write_text("#include <Eigen/Dense>\n")
        alone = folder / "gradus.cpp"
        alone.write_text("#include <gradus/gradus.hpp>\n")
        train = ROOT / "examples" / "gpt" / "train.cpp"
        mlp = next(iter(sorted((ROOT / "examples").glob("*mlp*.cpp"))), ROOT / "bench" / "compile" / "mlp.cpp")
        once = ROOT / "include" / "gradus" / "compiled.cpp"
        flags = [f for f in target_flags(train) or default_flags() if not f.startswith("-DGRADUS_COMPILED")]
        separate = [*flags, "-DGRADUS_COMPILED=1"]
        sources = [
            ("include <Eigen/Dense>", eigen, eigen_flags()),
            ("include <gradus/gradus.hpp>", alone, flags),
            ("two-layer MLP trainer", mlp, flags),
            ("GPT trainer, headers alone", train, flags),
            ("GPT trainer with gradus::compiled", train, separate),
            ("gradus::compiled", once, separate),
        ]
        rows, eigen_seconds = [], None
        for name, source, flags in sources:
            if flags is None:
                print(f"{name}: not installed, left out")
                continue
            if not source.exists():
                print(f"{name}: {source.relative_to(ROOT)} is not there, left out")
                continue
            runs = [compile_once(arguments.compiler, flags, source, folder) for _ in range(arguments.runs)]
            seconds = statistics.median(s for s, _ in runs)
            if source == eigen:
                eigen_seconds = seconds
            rows.append({"name": f"{name}: time", "value": seconds, "unit": "s"})
            if eigen_seconds is not None:
                rows[-1] |= {"ratio": seconds / eigen_seconds, "against": "Eigen"}
            rows.append({"name": f"{name}: peak memory", "value": max(b for _, b in runs) / 2**20, "unit": "MiB"})
    bench_report.print_table(rows)
    bench_report.write_rows(rows, os.environ.get("GRADUS_BENCH_JSON", ROOT / "build" / "bench" / "compile.json"))


if __name__ == "__main__":
    main()
