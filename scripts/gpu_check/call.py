#!/usr/bin/env python3
"""Runs one of three calls of what is packed, on a machine with a GPU: call.py CALL OUT [--seconds S] [--plan]

What each step was to do and what it did goes into OUT/gpu-check.json and, to be read, OUT/gpu-check.md, after every
step, and its output into OUT/logs-CALL.tar.gz. Earlier calls that are in OUT/gpu-check.json stay. A step ends at its
limit, the call after S seconds (440). Status 1 if a step failed, was stopped, or did not run for want of its program,
of a GPU or of time; a step whose tool is not on this machine is skipped. --plan prints the steps and their limits.

Needs Python 3.8, the driver, and cuBLASLt: the toolkit's or that of PyTorch's packages.
"""
import argparse
import dataclasses
import glob
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACK = ROOT / "build/gpu-pack"
LAUNCHER = shlex.split(os.environ.get("GRADUS_CUDA_LAUNCHER", ""))
sys.path.insert(0, str(HERE))
import page  # noqa: E402
import readings  # noqa: E402

FIRST_TESTS = ("matmul", "attention", "rows", "gpt", "graph", "memory")  # the likeliest to be wrong first
METRICS = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,smsp__inst_executed.sum"


@dataclasses.dataclass
class Step:
    name: str
    limit: int
    command: list
    read: typing.Callable = lambda text, gpu: readings.last_line(text)
    programs: tuple = ()  # of the pack
    tool: str = ""  # of the machine: a command, or "torch"


def program(name):
    return str(PACK / "bin" / name)


def unpack():
    """A folder that an older archive left must not be run from."""
    archive = PACK.with_suffix(".tar.xz")
    if not archive.exists():
        sys.exit(f"gpu-check.sh: no {archive.relative_to(ROOT)}: make it with scripts/gpu-check.sh --pack")
    shutil.rmtree(PACK, ignore_errors=True)
    with tarfile.open(archive) as programs:
        programs.extractall(ROOT / "build")


def packed():
    """Of each program of the pack, whether it is there or why not."""
    lines = (PACK / "programs").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def is_there(name):
    return packed().get(name) == "packed" and os.access(program(name), os.X_OK)


def runs(name, limit, target, *arguments, read=None):
    """A step that is one program of the pack. A kernel's failure ends all that its process does on the GPU."""
    step = Step(name, limit, [*LAUNCHER, program(target), *map(str, arguments)], programs=(target,))
    if read:
        step.read = read
    return step


def sanitized(tool):
    """The kernels that share memory between threads and copy while they compute. Errors of calls are the tests' to
    judge, for they ask for what cannot be; some start a process in which a kernel fails."""
    for name in ("attention", "rows", "mixture", "matmul"):
        step = runs(f"{tool} of {name}", 40, f"cuda_{name}")
        step.command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "1",
                        "--target-processes", "application-only", *step.command]
        step.tool = "compute-sanitizer"
        yield step


def ladder():
    """The rungs whose programs are packed. If they cannot be listed, the step is the list, and says why."""
    step = runs("the ladder", 200, "bench_train_cuda_list")
    if is_there("bench_train_cuda_list"):
        listed = subprocess.run([program("bench_train_cuda_list")], stdout=subprocess.PIPE, text=True, check=False)
        rungs = [e["name"] for e in readings.json_lines(listed.stdout) if not e["without"]
                 and is_there(f"bench_train_cuda_gpt2_{e['program']}")]
        if listed.returncode == 0:
            step.name = f"the ladder, {len(rungs)} rungs"
            step.command = [sys.executable, str(ROOT / "bench/train/run.py"), "--device", "cuda", "--model", "gpt2",
                            "--tables", "ladder", "--rounds", "1", "--programs", str(PACK / "bin"), "--rungs",
                            ",".join(rungs)]
            step.read = lambda text, gpu: {"came": "see the table",
                                           "tables": [{"title": "The ladder", "text": text[-6000:]}]}
    return step


def call_a(_):
    tests = [name for name in packed() if name.startswith("cuda_")]
    first = [f"cuda_{name}" for name in FIRST_TESTS]
    yield from (runs(f"test {name[5:]}", 40, name, read=readings.tests) for name in first)
    yield runs("first loss, one layer", 40, "bench_cuda_gpt_step", 0, read=readings.first_loss("1 layer, 2 x 128"))
    yield runs("GPT-2 124M, 16 sequences", 60, "bench_cuda_gpt_step_16", read=readings.step("12 layers, 16 x 1024"))
    ncu = runs("kernel by kernel", 150, "bench_cuda_gpt_step_16", 0, read=readings.kernels)
    # Nothing of the card is set, and units are not scaled. The program turns profiling on for its second step.
    ncu.command = ["ncu", "--clock-control", "none", "--print-units", "base", "--csv", "--profile-from-start", "off",
                   "--metrics", METRICS, *ncu.command]
    ncu.tool = "ncu"
    yield ncu
    yield runs("rates of memory and kernels", 60, "bench_cuda", read=readings.rates)
    yield from (runs(f"test {name[5:]}", 25, name, read=readings.tests) for name in tests if name not in first)
    yield from (runs(f"example {name}", 30, f"example_cuda_{name}") for name in ("mlp", "own_kernel"))


def call_b(work):
    yield runs("products", 90, "bench_cuda_products", read=readings.products)
    yield runs("GPT-2 124M, 64 sequences", 60, "bench_cuda_gpt_step_64", read=readings.step(None))
    yield runs("the same, tuned", 90, "bench_cuda_gpt_step_64", 20, work / "products", read=readings.step(None))
    yield runs("the same, cuDNN's attention", 60, "bench_cuda_gpt_step_64_cudnn", read=readings.step(None))
    for flags, limit in (("--compile", 120), ("", 60), ("--attention cudnn --compile", 120), ("--max-autotune", 240)):
        yield Step(f"PyTorch, 64 sequences {flags}".strip(), limit,
                   [sys.executable, str(ROOT / "bench/peers/torch_gpt.py"), "--device", "cuda", "--model", "gpt2-1024",
                    "--precision", "bf16_mixed", "--steps", "20", "--warmup", "5", "--batch", "64", *flags.split()],
                   readings.torch, tool="torch")


def call_c(work):
    text = work / "text"
    sources = [p for pattern in ("README.md", "docs/*.md", "docs/guide/*.md", "include/gradus/*/*.hpp")
               for p in sorted(ROOT.glob(pattern))]
    text.write_bytes(b"".join(p.read_bytes() for p in sources))
    train = shlex.join([*LAUNCHER, program("gpt_train"), "--data", str(text), "--eval-every", "1000", "--sample", "0",
                        "--steps", "200"])  # after the first checkpoint enough are left to be killed in
    prelude = "set -e; cd " + shlex.quote(str(work)) + "; "

    def trains(name, limit, script, programs=("gpt_train",), read=readings.trained):
        return Step(name, limit, ["bash", "-c", prelude + script], read, programs)
    yield trains("200 steps, eager", 90, f"{train} --out eager; tail -n 1 eager/log.jsonl")
    yield trains("200 steps as graphs, the same bits", 90, f"{train} --graph --out graph; "
                 "cmp eager/model.safetensors graph/model.safetensors; tail -n 1 graph/log.jsonl")
    yield trains("killed and resumed, the same bits", 120,
                 f"{train} --graph --save-every 10 --out killed & pid=$!; "
                 "until [ -s killed/checkpoint.safetensors ]; do kill -0 $pid; sleep 0.1; done; "
                 "kill -KILL $pid; wait $pid || true; test ! -e killed/model.safetensors; "
                 f"{train} --graph --save-every 10 --resume killed; "
                 "cmp graph/model.safetensors killed/model.safetensors; tail -n 1 killed/log.jsonl")
    sample = shlex.join([*LAUNCHER, program("gpt_sample")])
    yield trains("a sample", 40, f"{sample} graph/model.safetensors --count 200 | tr -cd '[:print:]'",
                 ("gpt_sample",), lambda text, gpu: {"came": repr(text[:60]), "ok": bool(text)})
    yield from sanitized("racecheck")
    yield ladder()
    for row, name in enumerate(("batch 4", "1 x 4", "1 x 4, checkpointing", "batch 4, fp16", "batch 4, bf16")):
        yield runs(f"BERT-large, {name}", 30, "bench_bert_steps_cuda", row, 4, read=readings.bert)
    yield from sanitized("synccheck")
    yield from sanitized("memcheck")


CALLS = {"a": call_a, "b": call_b, "c": call_c}


def libraries():
    """LD_LIBRARY_PATH for the programs, and whether cuBLASLt is where they look."""
    folders = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"]
    found = importlib.util.find_spec("nvidia")
    for package in (found.submodule_search_locations or []) if found else []:
        folders += sorted(glob.glob(f"{package}/*/lib"))
    folders = [f for f in folders if pathlib.Path(f).is_dir()]
    old = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    known = subprocess.run("ldconfig -p", shell=True, capture_output=True, text=True, check=False).stdout
    there = "libcublasLt.so.13" in known or any(pathlib.Path(f, "libcublasLt.so.13").exists() for f in folders + old)
    return ":".join([*old, *folders, str(PACK / "lib")]), there


def has_tool(tool):
    if tool == "torch":
        code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
    return shutil.which(tool) is not None


def outcome(step, limit, log, environment, gpu):
    """Runs a step: its status, what it says, and what was read."""
    with open(log, "wb") as out:
        running = subprocess.Popen(step.command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env=environment, cwd=ROOT, start_new_session=True)
        try:
            status = running.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            try:
                os.killpg(running.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            running.wait()
    text = log.read_text(encoding="utf-8", errors="replace")
    end = "\n".join(text.splitlines()[-15:])[-2000:]
    if status is None:
        return {"status": "STOPPED", "said": f"after {limit} s; " + end}
    if step.tool and "Device not supported" in text:
        return {"status": "skipped", "said": readings.last_line(text)["came"]}
    if status != 0:
        return {"status": "FAILED", "said": f"status {status}; " + end}
    try:
        read = step.read(text, gpu)
    except (ValueError, KeyError, IndexError) as problem:
        return {"status": "FAILED", "said": f"cannot be read: {problem!r}; {end}"}
    return {**read, "status": "ok" if read.pop("ok", True) else "FAILED"}


def machine():
    asked = subprocess.run("nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader", shell=True,
                           capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "no nvidia-smi, or no GPU"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", choices=CALLS)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=440)
    parser.add_argument("--plan", action="store_true")
    o = parser.parse_args()
    begin = time.monotonic()
    unpack()
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    steps = list(CALLS[o.call](work))
    if o.plan:
        for step in steps:
            print(f"{step.limit:4} s  {step.name:36} {shlex.join(map(str, step.command))}")
        return
    o.out = o.out.resolve()
    o.out.mkdir(parents=True, exist_ok=True)
    result_file = o.out / "gpu-check.json"
    results = json.loads(result_file.read_text(encoding="utf-8")) if result_file.exists() else {"calls": {}}
    gpu_name = machine()
    gpu = readings.known_gpu(gpu_name)
    this = results["calls"][o.call] = {"machine": gpu_name, "seconds": 0, "steps": [
        {"name": s.name, "status": "did not run", "limit": s.limit} for s in steps]}

    def write():
        this["seconds"] = round(time.monotonic() - begin)
        new = result_file.with_suffix(".new")
        new.write_text(json.dumps(results, indent=1), encoding="utf-8")
        new.replace(result_file)
        (o.out / "gpu-check.md").write_text(page.page_of(results), encoding="utf-8")
    print(f"{gpu_name}", flush=True)
    write()
    path, has_library = libraries()
    environment = {**os.environ, "LD_LIBRARY_PATH": path}
    states, tools = packed(), {}
    logs = work / "logs"
    logs.mkdir()
    for number, (step, entry) in enumerate(zip(steps, this["steps"])):
        left = int(o.seconds - (time.monotonic() - begin))
        limit = min(step.limit, left)
        began = time.monotonic()
        absent = next((f"{p}: {states.get(p, 'packed').replace('packed', 'is not in the pack')}" for p in step.programs
                       if states.get(p) != "packed" or not os.access(program(p), os.X_OK)), None)
        if step.tool not in tools:
            tools[step.tool] = not step.tool or has_tool(step.tool)
        if absent and ("left out" in absent or "not part" in absent):
            entry.update(status="left out", said=absent)
        elif absent:
            entry.update(status="MISSING", said=absent)
        elif step.programs and not has_library and not LAUNCHER:
            entry.update(status="MISSING", said="no libcublasLt.so.13: neither a toolkit's nor PyTorch's")
        elif not tools[step.tool]:
            entry.update(status="skipped", said=f"no {step.tool} here")
        elif limit < 3:
            entry.update(status="NO TIME", said=f"the call's {o.seconds} s are over")
        else:
            entry.update(outcome(step, limit, logs / f"{number:02}.log", environment, gpu))
        entry["seconds"] = round(time.monotonic() - began, 1)
        print(f"{step.name:36} {page.summary(entry)}", flush=True)
        write()
    with tarfile.open(o.out / f"logs-{o.call}.tar.gz", "w:gz") as archive:
        archive.add(logs, arcname=f"logs-{o.call}")
    shutil.rmtree(work)
    sys.exit(1 if page.problems(results, o.call) else 0)


if __name__ == "__main__":
    main()
