"""train.py LIBRARY: lesson 15 in Python, by ctypes: trains the model in the library, predicts, saves, and goes on."""
import ctypes
import sys

try:
    import numpy as np
except ModuleNotFoundError:
    print("gradus skipped: 1 (python3 has no numpy)")
    sys.exit(77)

rings = ctypes.CDLL(sys.argv[1])
floats = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
whole = np.ctypeslib.ndpointer(np.int32, flags="C_CONTIGUOUS")
rings.rings_bytes.restype = ctypes.c_size_t
rings.rings_init.restype = ctypes.c_void_p
rings.rings_init.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
rings.rings_step.argtypes = [ctypes.c_void_p, floats, whole, ctypes.c_size_t, ctypes.c_double,
                             ctypes.POINTER(ctypes.c_double)]
rings.rings_predict.argtypes = [ctypes.c_void_p, floats, ctypes.c_size_t, floats]
rings.rings_save.argtypes = rings.rings_load.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
rings.rings_free.argtypes = rings.rings_error.argtypes = [ctypes.c_void_p]
rings.rings_error.restype = ctypes.c_char_p


class Model:
    def __init__(self, seed):
        self.memory = ctypes.create_string_buffer(rings.rings_bytes())  # lives as long as the handle
        self.handle = rings.rings_init(seed, self.memory, len(self.memory))
        self.need(0 if self.handle else 1)

    def need(self, status):
        if status != 0:
            sys.exit(rings.rings_error(self.handle).decode())

    def step(self, places, hit, learning_rate):
        loss = ctypes.c_double()
        self.need(rings.rings_step(self.handle, places, hit, len(hit), learning_rate, loss))
        return loss.value

    def predict(self, places):
        scores = np.empty((len(places), 4), np.float32)
        self.need(rings.rings_predict(self.handle, places, len(places), scores))
        return scores

    def save(self, path):
        self.need(rings.rings_save(self.handle, path.encode()))

    def load(self, path):
        self.need(rings.rings_load(self.handle, path.encode()))

    def free(self):
        rings.rings_free(self.handle)


def throw_darts(first, count):
    """The examples of darts.h."""
    h = np.arange(first, first + count, dtype=np.uint32) * np.uint32(2654435769)
    h = (h ^ h >> np.uint32(16)) * np.uint32(2246822519)
    h ^= h >> np.uint32(13)
    xy = np.stack([h & np.uint32(255), h >> np.uint32(8) & np.uint32(255)], axis=1).astype(np.int32) - 128
    ring = np.minimum((xy * xy).sum(axis=1) // 4096, 3)
    return xy.astype(np.float32) / np.float32(128), ring.astype(np.int32)


batch, steps, unseen = 64, 500, 1000
model = Model(7)
print(f"memory: {rings.rings_bytes()} bytes")
for i in range(1, steps + 1):
    cost = model.step(*throw_darts(i * batch, batch), 1e-2)
    if i % 100 == 0:
        print(f"step {i} loss {cost.hex()}")
right = 0
for done in range(0, unseen, batch):
    where, hit = throw_darts(1000000 + done, min(batch, unseen - done))
    right += int((model.predict(where).argmax(axis=1) == hit).sum())
print(f"accuracy {right / unseen:.3f}")

model.save("rings.safetensors")
other = Model(1)
other.load("rings.safetensors")
darts = throw_darts((steps + 1) * batch, batch)
following, loaded = model.step(*darts, 1e-2), other.step(*darts, 1e-2)
print(f"step {steps + 1} loss {following.hex()}, and {loaded.hex()} from the file")
other.free()
model.free()
sys.exit(0 if following == loaded else 1)
