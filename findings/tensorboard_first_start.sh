#!/usr/bin/env bash
# Expected: START at step 4 in a resumed run drops the older steps from 4 on, in all readers of TensorBoard.
# So it is: its data server does so; --load_fast=false takes the first START of a run for its beginning, and keeps them.
#
#   findings/tensorboard_first_start.sh     in a temporary folder; PYTHON=... takes an interpreter that has the packages
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-$folder/venv/bin/python}
if [[ -z ${PYTHON:-} ]]; then
  python3 -m venv "$folder/venv"
  "$python" -m pip install -q tensorboard==2.21.0 grpcio
fi
"$python" - "$folder/run" <<'END'
import pathlib
import subprocess
import sys
import time

import grpc
import tensorboard
import tensorboard_data_server
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.data.proto import data_provider_pb2 as asks, data_provider_pb2_grpc as service
from tensorboard.summary.writer.event_file_writer import EventFileWriter

folder = sys.argv[1]
for first, last in ((1, 5), (4, 6)):  # a run, and its continuation from the checkpoint of step 3
    writer = EventFileWriter(folder, filename_suffix=f".{first}")
    if first > 1:
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        writer.add_event(event_pb2.Event(wall_time=time.time(), step=first, session_log=start))
    for step in range(first, last + 1):
        value = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="loss", simple_value=step)])
        writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=value))
    writer.close()
    time.sleep(1.1)  # files are read in the order of their names, which have the second

port = pathlib.Path(folder + ".port")
server = subprocess.Popen(
    [tensorboard_data_server.server_binary(), "--logdir", folder, "--port", "0", "--port-file", port,
     "--die-after-stdin", "--reload", "once"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
while not (port.exists() and port.read_text().strip()):
    time.sleep(0.1)
request = asks.ReadScalarsRequest(plugin_filter=asks.PluginFilter(plugin_name="scalars"),
                                  downsample=asks.Downsample(num_points=1000))
stub = service.TensorBoardDataProviderStub(grpc.insecure_channel("localhost:" + port.read_text().strip()))
while not (runs := stub.ReadScalars(request).runs):
    time.sleep(0.1)
with_server = list(runs[0].tags[0].data.step)
server.stdin.close()
server.wait()
loader = plugin_event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0}).Reload()
without = [event.step for event in loader.Tensors("loss")]
print("tensorboard", tensorboard.__version__)
print("data server:      ", *with_server)
print("--load_fast=false:", *without)
sys.exit(0 if with_server == [1, 2, 3, 4, 5, 6] and without == [1, 2, 3, 4, 5, 4, 5, 6] else 1)
END
