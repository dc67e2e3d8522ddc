#!/usr/bin/env python3
"""Writes tests/data/parity/images.safetensors: pooling and group norm, as make_fixtures.py writes its cases, and some
steps of a small residual net with batch norm.

    python3 tests/parity/make_image_fixtures.py [output directory]

The net, in float64 on parameters that float has exactly: net.<parameter or running state> before the first step,
net.loss<i> of step i, net.grad.<parameter> of step 0, net.end.<running state> after the last step of plain SGD, lr
0.1, and net.evaluated: the scores of the first images by the running state then. Weights of linear are [in, out].
"""
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from make_fixtures import Cases, save

STEPS = 3


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False)
        self.shortcut_norm = nn.BatchNorm2d(after)

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut_norm(self.shortcut(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.stem_norm = nn.BatchNorm2d(8)
        self.fine = Block(8, 8, 1)
        self.coarse = Block(8, 12, 2)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.coarse(self.fine(x)), 1).flatten(1))


def net_steps(tensors):
    torch.manual_seed(1)
    net = Net().double()
    for p in net.parameters():
        p.data = (p.data + 0.1 * torch.randn_like(p)).float().double()
    states = {k: v for k, v in net.state_dict().items() if "num_batches" not in k}
    for name, value in states.items():
        tensors[f"net.{name}"] = (value.T if name == "head.weight" else value).float()
    x = torch.randn(STEPS, 4, 3, 11, 10).float().double()
    labels = torch.randint(0, 5, (STEPS, 4))
    tensors["net.x"], tensors["net.labels"] = x.float(), labels.to(torch.int32)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x[step]), labels[step])
        loss.backward()
        tensors[f"net.loss{step}"] = loss
        if step == 0:
            for name, p in net.named_parameters():
                tensors[f"net.grad.{name}"] = p.grad.T.clone() if name == "head.weight" else p.grad.clone()
        optimizer.step()
    for name, value in net.state_dict().items():
        if "running" in name:
            tensors[f"net.end.{name}"] = value.clone()
    tensors["net.evaluated"] = net.eval()(x[0])


def main():
    torch.set_num_threads(1)
    default = pathlib.Path(__file__).resolve().parent.parent / "data" / "parity"
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    c = Cases()
    images = (2, 3, 7, 9)
    c.add("max_pool2d", lambda x: F.max_pool2d(x, 2), x=images)
    c.add("max_pool2d_padded", lambda x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=(1, 0)), x=images)
    c.add("avg_pool2d", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), x=images)
    c.add("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 4)), x=images)
    c.add("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (10, 4)), x=images)
    c.add("max_pool1d", lambda x: F.max_pool1d(x, 3, stride=2, padding=1), x=(2, 3, 11))
    c.add("avg_pool1d", lambda x: F.avg_pool1d(x, 4), x=(2, 3, 11))
    c.add("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), x=(3, 6, 4, 5), w=(6,), b=(6,))
    c.add("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x=(3, 6, 13), w=(6,), b=(6,))
    net_steps(c.tensors)
    save(directory / "images.safetensors", c.tensors,
         {"torch": torch.__version__, "made_by": "tests/parity/make_image_fixtures.py"})


if __name__ == "__main__":
    main()
