"""What the scripts that record PyTorch's numbers share: cases and their inputs, training, and the files."""
import json
import struct
from pathlib import Path

import torch

DATA = Path(__file__).resolve().parent.parent / "data"


def normal(g, *shape):
    return torch.randn(shape, generator=g, dtype=torch.float64)


def positive(*shape):
    return lambda g: 0.3 + 2.0 * torch.rand(shape, generator=g, dtype=torch.float64)


def integers(low, high, *shape):
    return lambda g: torch.randint(low, high, shape, generator=g)


def away_from(kinks, *shape):
    """Normal values, none closer than 0.02 to a kink, so that the gradient is beyond doubt."""
    def draw(g):
        x = normal(g, *shape)
        for k in kinks:
            x = torch.where((x - k).abs() < 0.02, torch.full_like(x, k + 0.05), x)
        return x
    return draw


def targets(high, *shape):
    """Targets of which some, the first among them, are -1."""
    def draw(g):
        t = torch.randint(0, high, shape, generator=g)
        t.view(-1)[[0, 4, 7]] = -1
        return t
    return draw


def by_rank(parameters, decay):
    """Groups of parameters for an optimizer: weight decay on matrices alone."""
    parameters = list(parameters)
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def train(parameters, optimizer, loss_of, steps):
    """Losses and norms of gradients of each step; loss_of is given the step's number, and norms are clipped to 1."""
    parameters, losses, norms = list(parameters), [], []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0))
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), torch.stack(norms)


FILES = {}


def file(**metadata):
    """A decorator of a function that fills the Fixture of <function's name>.safetensors, which has this metadata."""
    def enter(fill):
        FILES[fill.__name__] = fill, metadata
        return fill
    return enter


def write_files(directory, names):
    directory.mkdir(parents=True, exist_ok=True)
    for name in names or FILES:
        fixture, (fill, metadata) = Fixture(), FILES[name]
        fill(fixture)
        fixture.save(directory / f"{name}.safetensors", metadata)


class Fixture(dict):
    """The tensors of one file, by name."""

    def put(self, prefix, **tensors):
        """Adds tensors as <prefix>.<name>; integers become I32."""
        for name, t in tensors.items():
            assert f"{prefix}.{name}" not in self, f"two tensors are named {prefix}.{name}"
            self[f"{prefix}.{name}"] = t if t.is_floating_point() else t.to(torch.int32)

    def case(self, name, function, **inputs):
        """Records a function of the inputs, in float64: the inputs, its output y, the gradient dy that arrives there,
        and d<input> for each input of floating-point numbers. Several outputs are numbered: y0, y1, dy0, dy1. A shape
        draws normal values, a callable is given the generator, a tensor is taken. Each case draws from a seed of its
        own, so that adding one changes no other."""
        seed = 2166136261
        for byte in name.encode():
            seed = (seed ^ byte) * 16777619 % 2**32
        g = torch.Generator().manual_seed(seed)
        values = {key: normal(g, *how) if isinstance(how, tuple) else how(g) if callable(how) else how
                  for key, how in inputs.items()}
        self.put(name, **values)
        values = {key: v.clone().requires_grad_(v.is_floating_point()) for key, v in values.items()}
        outputs = function(*values.values())
        numbered = {"": outputs} if isinstance(outputs, torch.Tensor) else dict(enumerate(outputs))
        self.put(name, **{f"y{i}": y for i, y in numbered.items()})
        smooth = {i: y for i, y in numbered.items() if y.is_floating_point()}
        dy = {f"dy{i}": normal(g, *y.shape) for i, y in smooth.items()}
        self.put(name, **dy)
        if smooth:
            leaves = {key: v for key, v in values.items() if v.requires_grad}
            self.gradients(name, list(smooth.values()), list(dy.values()), leaves)

    def gradients(self, name, outputs, dy, leaves):
        """Records d<leaf> for gradients dy of the outputs."""
        found = torch.autograd.grad(outputs, list(leaves.values()), dy)
        self.put(name, **{f"d{leaf}": gradient for leaf, gradient in zip(leaves, found)})

    def save(self, path, metadata):
        """Writes a safetensors file: header length, JSON header padded to 8 bytes, contiguous little-endian data."""
        names = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64", torch.int32: "I32"}
        metadata = {"torch": torch.__version__, "made_by": "tests/parity/make_fixtures.py", **metadata}
        header, data = {"__metadata__": metadata}, b""
        # Wide types first, so that every tensor starts at a multiple of its own element size.
        for key in sorted(self, key=lambda k: (-self[k].element_size(), k)):
            t, begin = self[key].detach().contiguous(), len(data)
            data += t.numpy().astype(t.numpy().dtype.newbyteorder("<")).tobytes()
            header[key] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [begin, len(data)]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
