#!/usr/bin/env python3
"""all_reduce of PyTorch's Gloo backend between processes of this machine, timed: the peer of bench_allreduce.

    python3 gloo.py RANKS BYTES...

The result is one line of JSON on standard output: the microseconds of each size, as bench_allreduce takes them.
"""
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, ranks, port, sizes, result):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    rows = []
    for size in sizes:
        data = torch.zeros(size // 4)
        together = min(max((64 << 20) // size, 2), 100)  # as in allreduce.cpp
        times, warm, more = [], True, torch.ones(1, dtype=torch.uint8)
        end = time.perf_counter() + 1
        while more[0]:
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(together):
                dist.all_reduce(data)
            now = time.perf_counter()
            if not warm:
                times.append((now - begin) / together)
            more[0] = int(warm or now < end or len(times) < 3)
            dist.broadcast(more, 0)
            warm = False
        rows.append({"bytes": size, "gloo": statistics.median(times) * 1e6})
    dist.destroy_process_group()
    if rank == 0:
        result.put(rows)


def main():
    ranks, sizes = int(sys.argv[1]), [int(word) for word in sys.argv[2:]]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = mp.get_context("spawn").SimpleQueue()
    mp.spawn(rank_main, args=(ranks, port, sizes, result), nprocs=ranks, join=True)
    print(json.dumps({"ranks": ranks, "microseconds": result.get()}))


if __name__ == "__main__":
    main()
