#!/usr/bin/env python3
"""Reads event files of runs that were resumed as TensorBoard does: by each of its readers, every step is there once.

    pip install tensorboard==2.21.0 grpcio
    g++ -std=c++20 -O1 -Iinclude tests/parity/tensorboard/write.cpp -o write
    python3 tests/parity/compare_tensorboard.py ./write

The readers are that of `tensorboard` (the data server, a program), that of `tensorboard --load_fast=false`, and
EventAccumulator, which scripts use. Prints a line for each folder and reader, and ends with status 1 where one shows
other steps or the values of steps that were done again. Not part of the tests, which have no Python packages;
tests/unit/report/tensorboard.cpp holds the events themselves.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

import grpc
import tensorboard_data_server
from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.data.proto import data_provider_pb2, data_provider_pb2_grpc
from tensorboard.util import tensor_util

TAG = "loss/train"


def by_data_server(folder):
    with tempfile.TemporaryDirectory() as work:
        port = pathlib.Path(work) / "port"
        server = subprocess.Popen(
            [tensorboard_data_server.server_binary(), "--logdir", folder, "--port", "0", "--port-file", port,
             "--die-after-stdin", "--reload", "once"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                if port.exists() and port.read_text().strip():
                    break
                time.sleep(0.1)
            channel = grpc.insecure_channel("localhost:" + port.read_text().strip())
            request = data_provider_pb2.ReadScalarsRequest(
                plugin_filter=data_provider_pb2.PluginFilter(plugin_name="scalars"),
                downsample=data_provider_pb2.Downsample(num_points=1000))
            for _ in range(600):  # until the folder was read
                runs = data_provider_pb2_grpc.TensorBoardDataProviderStub(channel).ReadScalars(request).runs
                if runs:
                    break
                time.sleep(0.1)
            data = runs[0].tags[0].data
            return list(zip(data.step, data.value))
        finally:
            server.stdin.close()
            server.wait()


def without_data_server(folder):
    read = plugin_event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0}).Reload()
    return [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in read.Tensors(TAG)]


def by_accumulator(folder):
    read = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
    return [(e.step, e.value) for e in read.Scalars(TAG)]


def main():
    program, failures = sys.argv[1], 0
    # The first and the last step of each process of a run: one, one resumed, one resumed twice and at once.
    for parts in ([(1, 5)], [(1, 5), (4, 6)], [(1, 5), (4, 9), (3, 7)], [(1, 5), (4, 6), (4, 4), (2, 8)]):
        steps = {}
        with tempfile.TemporaryDirectory() as folder:
            for first, last in parts:
                subprocess.run([program, folder, str(first), str(last)], check=True)
                steps = {s: v for s, v in steps.items() if s < first} | dict.fromkeys(range(first, last + 1), first)
            for reader in (by_data_server, without_data_server, by_accumulator):
                found = reader(folder)
                fine = found == list(steps.items())
                failures += not fine
                print(f"{'right' if fine else 'WRONG'} {parts} {reader.__name__}: steps {[s for s, _ in found]}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
