#!/usr/bin/env python3
"""Writes with the package gguf:

values.gguf  Metadata of each type, and tensors of each type that gradus reads, each with what the package reads in them
             as F32 beside it.
llama.gguf   The model in tests/data/llama/tied, as llama.cpp's conversion of Hugging Face's Llamas has it.

    python3 tests/parity/make_gguf_fixtures.py [output directory]
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.torch import load_file

DATA = Path(__file__).resolve().parent.parent / "data"
TYPES = gguf.GGMLQuantizationType


def blocks(type, rows, random):
    """Random bytes, of which the scales in f16 are small numbers."""
    _, size = gguf.GGML_QUANT_SIZES[type]
    raw = random.integers(0, 256, (rows, size), dtype=np.uint8)
    for at in {TYPES.Q4_K: (0, 2), TYPES.Q6_K: (208,)}[type]:
        raw[:, at:at + 2] = random.normal(0, 0.1, (rows, 1)).astype(np.float16).view(np.uint8)
    return raw


def values(folder):
    random = np.random.default_rng(5)
    file = gguf.GGUFWriter(folder / "values.gguf", "test")
    for kind, value in dict(uint8=200, int8=-100, uint16=60000, int16=-30000, uint32=4000000000, int32=-2000000000,
                            float32=0.5, bool=True, string="größer", uint64=2**63, int64=-2**62, float64=0.1).items():
        getattr(file, f"add_{kind}")(f"one.{kind}", value)
    file.add_array("list.int32", [1, -2, 3])
    file.add_array("list.float32", [0.5, -0.25])
    file.add_array("list.string", ["a", "", "Ġb"])
    file.add_array("list.bool", [True, False])
    for type in (TYPES.F32, TYPES.F16, TYPES.BF16, TYPES.Q8_0):
        values = random.normal(0, 1, (3, 64)).astype(np.float32)
        values[0, :2] = 0, 1e-3
        stored = gguf.quantize(values, type)
        file.add_tensor(f"{type.name}.weight", stored, raw_dtype=type)
        file.add_tensor(f"{type.name}.before", values)
        file.add_tensor(f"{type.name}.values", gguf.dequantize(stored, type).astype(np.float32))
    for type in (TYPES.Q4_K, TYPES.Q6_K):
        stored = blocks(type, 3, random)
        file.add_tensor(f"{type.name}.weight", stored, raw_dtype=type)
        file.add_tensor(f"{type.name}.values", gguf.dequantize(stored, type).astype(np.float32))
    file.add_tensor("odd", np.arange(5, dtype=np.float32))
    file.add_tensor("cube", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    finish(file)


def llama(folder):
    source = DATA / "llama" / "tied"
    config = json.loads((source / "config.json").read_text())
    heads, kv_heads, head = (config[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    file = gguf.GGUFWriter(folder / "llama.gguf", "llama")
    file.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    file.add_block_count(config["num_hidden_layers"])
    file.add_context_length(config["max_position_embeddings"])
    file.add_embedding_length(config["hidden_size"])
    file.add_feed_forward_length(config["intermediate_size"])
    file.add_head_count(heads)
    file.add_head_count_kv(kv_heads)
    file.add_key_length(head)
    file.add_value_length(head)
    file.add_vocab_size(config["vocab_size"])
    file.add_layer_norm_rms_eps(config["rms_norm_eps"])
    file.add_rope_dimension_count(head)
    rope = config["rope_parameters"]
    file.add_rope_freq_base(rope["rope_theta"])
    frequencies = rope["rope_theta"] ** -(np.arange(0, head, 2) / head)
    low, high = (rope["original_max_position_embeddings"] / rope[k] for k in ("low_freq_factor", "high_freq_factor"))
    factors = []
    for length in 2 * np.pi / frequencies:
        smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (
            rope["high_freq_factor"] - rope["low_freq_factor"])
        factors.append(1 if length < high else rope["factor"] if length > low
                       else 1 / ((1 - smooth) / rope["factor"] + smooth))
    file.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    file.add_tokenizer_model("none")
    file.add_bos_token_id(config["bos_token_id"])
    for name, tensor in load_file(source / "model.safetensors").items():
        x = tensor.float().numpy()
        for kind, count in (("q_proj", heads), ("k_proj", kv_heads)):
            if f"{kind}.weight" in name:
                x = x.reshape(count, 2, x.shape[0] // count // 2, -1).swapaxes(1, 2).reshape(x.shape)
        type = TYPES.BF16 if x.ndim == 2 else TYPES.F32
        file.add_tensor(names.get_name(name, (".weight",)), gguf.quantize(x, type), raw_dtype=type)
    finish(file)


def finish(file):
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    values(folder)
    llama(folder)


if __name__ == "__main__":
    main()
