#!/usr/bin/env python3
"""What transformers_model.py does, by llama.cpp, for the model in a GGUF file, one sequence at a time."""
import argparse
import json
import time

import llama_cpp
from transformers_model import FEW, peak_mib

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
parser.add_argument("--prompt", type=int, default=32)
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--threads", type=int, default=2)
o = parser.parse_args()
model = llama_cpp.Llama(o.file, n_ctx=1024, n_threads=o.threads, n_threads_batch=o.threads, verbose=False)
ids = [i * 97 % model.n_vocab() for i in range(o.prompt)]


def read():
    start = time.perf_counter()
    model.reset()
    model.eval(ids)
    return time.perf_counter() - start


def write(count):
    start = time.perf_counter()
    for _ in range(count):
        model.eval([model.sample(temp=0)])
    return time.perf_counter() - start


read()
write(FEW)
reading, writing = read(), write(o.tokens)
print(json.dumps({"tok_s": o.tokens / writing, "prompt_tok_s": o.prompt / reading, "peak_mib": peak_mib()}))
