#!/usr/bin/env python3
"""Compares models of the Llama family with those of Hugging Face's transformers.

    pip install torch transformers
    python3 tests/parity/compare_llama_family.py [case ...] [--work FOLDER]
    python3 tests/parity/compare_llama_family.py --fixtures

The first form makes a small random model of each case, of odd sizes and windows shorter than its texts, compiles
tests/parity/llama_family/compare.cpp for its sizes, and prints a line: the largest differences of a logit, in fp32 and
in bf16_mixed (and in transformers' own autocast), and of a gradient from that in float64 (by the largest), the greedy
tokens that are equal, the largest difference of the losses of 20 steps of AdamW, and of a logit of the folder that
gradus exports, as transformers reads it. Ends with status 1 where one is too large. The second form writes
tests/data/llama_family, smaller models, for tests/parity/llama_family.cpp.
"""
import argparse
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers
from fixtures import DATA, by_rank, train
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 20
FULL, WINDOW = "full_attention", "sliding_attention"
LLAMA3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 24}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 24}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}
GEMMA2 = {"query_pre_attn_scalar": 17, "sliding_window": 7}
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}
EXPERTS = {"num_experts_per_tok": 2}
ABSENT = object()
# Of each case: the configuration's class, what is not as in sizes_of(), and what is edited in config.json then.
CASES = {
    "llama": ("Llama", {"head_dim": None, "hidden_size": 60}),
    "llama3_tied": ("Llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama_biases": ("Llama", {"attention_bias": True, "rope_parameters": LINEAR}),
    "mistral": ("Mistral", {"sliding_window": 7}),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2,
                        "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {}),
    "qwen3_yarn": ("Qwen3", {"rope_parameters": YARN, "attention_bias": True}),
    "phi3": ("Phi3", {"sliding_window": 7}),
    "gemma": ("Gemma", {}),
    "gemma2": ("Gemma2", {**GEMMA2, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3Text", {**GEMMA2, "layer_types": [WINDOW, WINDOW, FULL, WINDOW], "rope_parameters": {
        FULL: {**LINEAR, "rope_theta": 1e6}, WINDOW: {"rope_type": "default", "rope_theta": 1e4}}}),
    "mixtral": ("Mixtral", {**EXPERTS, "num_local_experts": 3, "sliding_window": 7}),
    "qwen3_moe": ("Qwen3Moe", {**EXPERTS, "num_experts": 3, "norm_topk_prob": True, "moe_intermediate_size": 18}),
    # Keys that are absent, of another family, or of another version.
    "llama_windows": ("Llama", {}, {"sliding_window": 7, "layer_types": [WINDOW, FULL, WINDOW, FULL]}),
    "llama3_top": ("Llama", {"rope_parameters": LLAMA3}, {
        "rope_parameters": {key: LLAMA3[key] for key in LLAMA3 if key != "original_max_position_embeddings"},
        "original_max_position_embeddings": 24}),
    "mistral_types": ("Mistral", {"sliding_window": 7}, {"layer_types": [WINDOW, WINDOW, FULL, WINDOW]}),
    "mistral_switch": ("Mistral", {"sliding_window": 7}, {"use_sliding_window": False}),
    "qwen3_yarn0": ("Qwen3", {"rope_parameters": YARN}, {"rope_parameters": {**YARN, "beta_slow": 0}}),
    "gemma_gelu": ("Gemma", {}, {"hidden_act": "gelu"}),
    "gemma2_bare": ("Gemma2", {"sliding_window": 7}, {key: ABSENT for key in (
        "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "layer_types")}),
    "gemma3_bare": ("Gemma3Text", {"sliding_window": 7}, {"rope_parameters": ABSENT, "layer_types": ABSENT,
                                                          "attn_logit_softcapping": 2.0}),
    "mixtral_bare": ("Mixtral", {"num_local_experts": 3}, {"num_experts_per_tok": ABSENT, "sliding_window": ABSENT}),
}
FIXTURES = ["mistral", "qwen2", "qwen3_yarn", "phi3", "gemma", "gemma2", "gemma3", "mixtral", "qwen3_moe"]


def sizes_of(small):
    sizes = {"num_hidden_layers": 4, "num_attention_heads": 3, "num_key_value_heads": 1, "hidden_size": 48,
             "head_dim": 20, "intermediate_size": 88, "vocab_size": 301, "max_position_embeddings": 40}
    if small:
        sizes |= {"num_hidden_layers": 3, "hidden_size": 14, "head_dim": 6, "intermediate_size": 18, "vocab_size": 37,
                  "max_position_embeddings": 18, "num_attention_heads": 2}
    return sizes | {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": None}


def model_of(case, small):
    name, own = CASES[case][:2]
    if small and "layer_types" in own:
        own = {**own, "layer_types": own["layer_types"][1:]}
    config = getattr(transformers, name + "Config")(**{**sizes_of(small), **own})
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, **EAGER)
    with torch.no_grad():
        for p in model.parameters():  # biases and norms are random, too
            p.add_(torch.randn_like(p) * 0.05)
    return model.eval(), config


def logits_of(model, tokens):
    with torch.no_grad():
        return model(tokens.long(), use_cache=False).logits.float().contiguous()


def record(case, folder, small=False):
    """Writes the model into a folder, and what it makes of random tokens; the gradients are returned."""
    model, config = model_of(case, small)
    if small:
        model.bfloat16()
    model.save_pretrained(folder)
    if len(CASES[case]) > 2:
        values = json.loads((folder / "config.json").read_text()) | CASES[case][2]
        (folder / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not ABSENT}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **EAGER).eval()
    config = model.config
    context, vocabulary = config.max_position_embeddings, config.vocab_size
    texts = torch.randint(0, vocabulary, (2, context + 1))
    tokens, goals = texts[:, :-1].contiguous(), texts[:, 1:].contiguous()
    greedy = tokens[:1, :5]
    for _ in range(context - 5):
        greedy = torch.cat([greedy, logits_of(model, greedy)[:, -1:].argmax(-1)], 1)
    found = {"tokens": tokens.int(), "targets": goals.int(), "logits": logits_of(model, tokens), "greedy": greedy.int()}
    exact = copy.deepcopy(model).double()  # of the gradients, fp32 has errors of up to 1.5e-6 itself
    F.cross_entropy(exact(tokens, use_cache=False).logits.flatten(0, 1), goals.flatten()).backward()
    if not small:
        batches = torch.randint(0, vocabulary, (STEPS, 2, context + 1))
        batches[:, :, 1::2] = (batches[:, :, 0:-1:2] * 7 + 3) % vocabulary  # something to learn
        found["batches"] = batches.int()
    gradients = saved_gradients(exact)
    if small:
        for name, g in gradients.items():  # of each, its sum, and one with weights
            g = g.flatten().double()
            weights = (torch.arange(len(g)) * 7919 % 101 - 50) / 50
            found["gradient." + name] = torch.stack([g.sum(), (g * weights).sum(), g.abs().max()]).float()
    else:
        optimizer = torch.optim.AdamW(by_rank(model.parameters(), 0.1), lr=1e-3, betas=(0.9, 0.95))
        found["losses"], _ = train(model.parameters(), optimizer, lambda step: F.cross_entropy(
            model(found["batches"][step, :, :-1].long(), use_cache=False).logits.flatten(0, 1),
            found["batches"][step, :, 1:].long().flatten()), STEPS)
    save_file(found, folder / "recorded.safetensors")
    return found, gradients


def saved_gradients(model):
    """The gradients by the names that save_pretrained has for the parameters."""
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        for p in model.parameters():
            p.copy_(p.grad if p.grad is not None else torch.zeros_like(p))
        model.save_pretrained(place)
        return load_file(pathlib.Path(place) / "model.safetensors")


def in_bf16(model, recorded):
    """The largest difference of a logit that autocast makes."""
    with torch.autocast("cpu", torch.bfloat16):
        return (logits_of(model, recorded["tokens"]) - recorded["logits"]).abs().max().item()


def sizes_in_cpp(config):
    experts = getattr(config, "num_local_experts", 0) or getattr(config, "num_experts", 0) or 0
    family = "mistral" if config.model_type == "ministral" else config.model_type  # one that lists its layers' types
    biases = 2 if getattr(config, "attention_bias", False) else 1 if family == "qwen2" else 0
    return (f".layers = {config.num_hidden_layers}, .heads = {config.num_attention_heads}, "
            f".width = {config.hidden_size}, .context = {config.max_position_embeddings}, "
            f".vocabulary = {config.vocab_size}, .kv_heads = {config.num_key_value_heads}, "
            f".hidden = {getattr(config, 'moe_intermediate_size', config.intermediate_size)}, "
            f".tied = {int(config.tie_word_embeddings)}, .family = llama::family_named(\"{family}\"), "
            f".head_size = {getattr(config, 'head_dim', 0) or 0}, .biases = {biases}, .experts = {experts}, "
            f".experts_per_token = {config.num_experts_per_tok if experts else 0}")


def compare(case, work):
    folder, out, program = work / case, work / f"{case}_out", work / f"{case}_compare"
    recorded, gradients = record(case, folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    subprocess.run(["ccache", "g++", "-std=c++20", "-Og", "-g0", "-march=native", f"-I{ROOT}/include",
                    f"-I{ROOT}/examples", f"-I{ROOT}/tests", f"-DFAMILY_MEMBER={sizes_in_cpp(config)}",
                    *(ROOT / "examples/gpt/tools" / name for name in ("gguf.cpp", "gguf_tokenizer.cpp")),
                    ROOT / "tests/parity/llama_family/compare.cpp", "-o", program, "-pthread"], check=True)
    said = subprocess.run([program, folder, out], check=True, capture_output=True, text=True).stdout.split()
    whole, half, alike, losses = float(said[0]), float(said[1]), int(said[2]), float(said[3])
    ours = load_file(out / "model.safetensors")
    assert ours.keys() == gradients.keys(), ours.keys() ^ gradients.keys()
    largest = max(g.abs().max() for g in gradients.values())
    gradient = max(((ours[name] - g).abs().max() / largest).item() for name, g in gradients.items())
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        out / "exported", output_loading_info=True, dtype=torch.float32, **EAGER)
    assert not any(report.values()), report
    exported = (logits_of(model.eval(), recorded["tokens"]) - recorded["logits"]).abs().max().item()
    wanted = recorded["greedy"].shape[1] - 5
    theirs = in_bf16(model, recorded)
    fine = (max(whole, losses, exported) < 1e-4 and half < max(2e-2, 1.5 * theirs) and gradient < 2e-6 and
            alike == wanted)
    print(f"{'equal    ' if fine else 'DIFFERENT'} {case:13} logits {whole:.2g}, bf16 {half:.2g} (autocast's "
          f"{theirs:.2g}) of {recorded['logits'].abs().max():.2g}; gradients {gradient:.2g}; "
          f"greedy {alike} of {wanted}; losses {losses:.2g}, {recorded['losses'][0]:.2f} to "
          f"{recorded['losses'][-1]:.2f}; exported {exported:.2g}",
          flush=True)
    return fine


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("cases", nargs="*", default=list(CASES))
    flags.add_argument("--work", type=pathlib.Path)
    flags.add_argument("--fixtures", action="store_true")
    given = flags.parse_args()
    torch.set_num_threads(1)
    if given.fixtures:
        for case in FIXTURES:
            (DATA / "llama_family" / case).mkdir(parents=True, exist_ok=True)
            record(case, DATA / "llama_family" / case, small=True)
        return 0
    work = given.work or pathlib.Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    return 0 if all([compare(case, work) for case in given.cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
