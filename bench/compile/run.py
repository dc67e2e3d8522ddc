#!/usr/bin/env python3
"""What programs of gradus cost to compile: processor seconds, peak memory and bytes of machine code.

    python3 bench/compile/run.py [--compiler g++] [--runs 3] [--only REGEX] [--against DIR]

Each source is compiled to an object with -O2, several times, without ccache. The rows are the median of the seconds,
user and system, of the compiler and what it starts, the largest peak of one process, and the bytes of the sections
.text*. "a second batch size" is what that adds to a program. Times have a ratio to including <Eigen/Dense>, where it
is installed.

With --against DIR, another checkout, both are compiled in turn, and all ratios are against that one. The programs are
this checkout's, but for the trainers of examples/, which each takes from its own.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))
import bench_report  # noqa: E402

EIGEN, MLP = "include <Eigen/Dense>", "two-layer MLP trainer"
ADDS_TO = {  # the rows that are a difference: to which program
    "MLP, a second batch size": MLP,
    "MLP, a second batch size, with gradus::compiled": f"{MLP} with gradus::compiled",
}


def flags_of(tree):
    """What every program is compiled with; CMake's Release differs by -O3 and warnings."""
    prefixes = [p for p in os.environ.get("CMAKE_PREFIX_PATH", "").split(":") if p]
    others = [word for prefix in prefixes for word in ("-isystem", f"{prefix}/include")]
    return ["-std=c++20", "-O2", "-DNDEBUG", f"-I{tree / 'include'}", *others]


def compiled_flags(base, tree):
    """What gradus::compiled adds: as cmake/GradusCompiled.cmake does, it names the build that its kernels are of."""
    flags = ["-DGRADUS_COMPILED=1"]
    config = tree / "include" / "gradus" / "core" / "config.hpp"
    if "GRADUS_KERNELS_OF_" in config.read_text():
        question = f'#include "{config}"\nGRADUS_TEXT(GRADUS_BUILD)\n'
        answer = subprocess.run([*base, "-E", "-P", "-x", "c++", "-"], input=question, capture_output=True, text=True)
        name = re.search(r'"(\w+)"', answer.stdout)
        if name is None:
            sys.exit(f"compile: {base[0]} did not name its build: {answer.stderr}")
        flags.append(f"-DGRADUS_KERNELS_OF_{name[1]}=1")
    return flags


def programs_of(tree, compiler, folder):
    """The programs by name, each a list of commands without their -o; a source that is not there is left out."""
    base = [compiler, *flags_of(tree), "-march=native", "-c"]
    compiled = [*base, *compiled_flags(base[:-1], tree)]
    cuda = ["nvcc", *flags_of(tree), "-arch=sm_80", "--expt-relaxed-constexpr", "-Xcompiler=-march=native", "-c"]
    alone, mlp = folder / "gradus.cpp", HERE / "mlp.cpp"
    alone.write_text("#include <gradus/gradus.hpp>\n")
    train, library = tree / "examples" / "gpt" / "train.cpp", tree / "include" / "gradus"
    second = "-DSECOND_BATCH_SIZE=1"
    lists = tree / "examples" / "CMakeLists.txt"  # a trainer of gradus::compiled is compiled as its build does
    own = ["-O1"] if lists.exists() and "set(small train.cpp" in lists.read_text() else []
    programs = {
        "include <gradus/gradus.hpp>": [[*base, alone]],
        "hello": [[*base, HERE / "hello.cpp"]],
        MLP: [[*base, mlp]],
        f"{MLP} with gradus::compiled": [[*compiled, mlp]],
        "MLP, a second batch size": [[*base, second, mlp]],
        "MLP, a second batch size, with gradus::compiled": [[*compiled, second, mlp]],
        "MLP, a bounded batch": [[*base, "-DBOUNDED_BATCH=1", mlp]],
        "GPT trainer, headers alone": [[*base, train]],
        "GPT trainer with gradus::compiled": [[*compiled, *own, train]],
        "gradus::compiled": [[*compiled, library / f"{name}.cpp"] for name in ("compiled", "compiled_kernels")],
        "MLP for CUDA": [[*cuda, tree / "examples" / "cuda_mlp.cu"]] if shutil.which("nvcc") else [],
    }
    return {name: [c for c in commands if c[-1].exists()] for name, commands in programs.items()}


def eigen_program(compiler, folder):
    """A command that includes Eigen; none if it is not installed."""
    source = folder / "eigen.cpp"
    source.write_text("#include <Eigen/Dense>\n")
    prefixes = [p for p in ("/usr/include/eigen3", "/usr/local/include/eigen3") if os.path.isdir(p)]
    return [[compiler, "-std=c++20", "-O2", "-isystem", p, "-c", source] for p in prefixes[:1]]


def code_bytes(path):
    """The machine code in an object: its sections .text*."""
    report = subprocess.run(["size", "-A", str(path)], capture_output=True, text=True, check=True).stdout
    return sum(int(size) for size in re.findall(r"^\.text\S*\s+(\d+)", report, re.MULTILINE))


def compile_once(commands, folder):
    """Processor seconds, peak MiB and bytes of code of one compilation."""
    seconds, peak, code = 0.0, 0.0, 0
    for command in commands:
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([*command, "-o", folder / "out.o"], stdout=errors, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)  # with all that the compiler's driver waited for
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                errors.seek(0)
                sys.stderr.write(errors.read().decode(errors="replace")[:4000])
                sys.exit(f"compile: {command[0]} could not compile {command[-1]} by {' '.join(map(str, command))}")
        seconds += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss / 1024)
        code += code_bytes(folder / "out.o")
    return seconds, peak, code


def figures(name, runs):
    """Seconds, peak and code of a program; of one that adds to another, what it adds, and no peak."""
    seconds, peaks, codes = zip(*runs[name])
    if name not in ADDS_TO:
        return statistics.median(seconds), max(peaks), codes[-1]
    before, _, code = zip(*runs[ADDS_TO[name]])
    return statistics.median(a - b for a, b in zip(seconds, before)), None, codes[-1] - code[-1]


def rows_of(names, runs, against):
    """The rows of the first tree's programs, with ratios to the second's, or else of the time to Eigen's."""
    rows = []
    for name in names:
        here = figures(name, runs[0])
        if len(runs) == 2:
            there = figures(name, runs[1])
        else:
            there = (figures(EIGEN, runs[0])[0] if EIGEN in runs[0] else None, None, None)
        for what, unit, value, other in zip(("time", "peak memory", "code"), ("s", "MiB", "B"), here, there):
            if value is None:
                continue
            rows.append({"name": f"{name}: {what}", "value": value, "unit": unit})
            if other is not None and other > 0:
                rows[-1] |= {"ratio": value / other, "against": against}
    return rows


def print_comparison(names, runs):
    """One line a program: each figure of this tree, of the other, and their ratio."""
    title = "this, the other, ratio"
    width = max(map(len, [title, *names]))
    print(f"{title:<{width}}" + "".join(f"{h:>32}" for h in ("seconds", "peak MiB", "bytes of code")))
    for name in names:
        line = f"{name:<{width}}"
        for value, other, digits in zip(figures(name, runs[0]), figures(name, runs[1]), (2, 0, 0)):
            cells = ("", "", "") if value is None else (
                f"{value:,.{digits}f}", f"{other:,.{digits}f}", f"{value / other:.2f}" if other > 0 else "")
            line += f"{cells[0]:>13}{cells[1]:>12}{cells[2]:>7}"
        print(line.rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", type=re.compile, default="", metavar="REGEX", help="the rows whose name has a match")
    parser.add_argument("--against", type=pathlib.Path, metavar="DIR", help="another checkout, compiled in turn")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs {arguments.runs}: at least 1")
    trees = [ROOT] + ([arguments.against.resolve()] if arguments.against else [])
    for tree in trees:
        if not (tree / "include" / "gradus" / "gradus.hpp").exists():
            parser.error(f"--against {tree}: no include/gradus/gradus.hpp there")

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = [programs_of(tree, arguments.compiler, folder) for tree in trees]
        if not arguments.against:
            programs[0] = {EIGEN: eigen_program(arguments.compiler, folder)} | programs[0]
        wanted = [name for name in programs[0] if name == EIGEN or re.search(arguments.only, name)]
        names = [name for name in wanted if all(p[name] for p in programs)]
        for name in wanted:
            if name not in names:
                print(f"{name}: not there, left out")
        needed = [n for n in programs[0] if n in names or n in (ADDS_TO[m] for m in names if m in ADDS_TO)]
        runs = [{name: [] for name in needed} for _ in trees]
        for _ in range(arguments.runs):
            for name in needed:
                for program, measured in zip(programs, runs):
                    measured[name].append(compile_once(program[name], folder))
    if not names:
        sys.exit("compile: nothing to measure")
    rows = rows_of(names, runs, str(arguments.against or "Eigen"))
    if arguments.against:
        print_comparison(names, runs)
    else:
        bench_report.print_table(rows)
    bench_report.write_rows(rows, os.environ.get("GRADUS_BENCH_JSON", ROOT / "build" / "bench" / "compile.json"))


if __name__ == "__main__":
    main()
