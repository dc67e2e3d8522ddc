#!/usr/bin/env python3
"""Records in tests/data/families.json what Hugging Face's transformers makes of each key of a config.json.

    pip install torch transformers==5.24.0
    python3 tests/parity/make_family_fixtures.py

Of each family: a small config.json that has all keys of its class, the facts of the model that transformers builds from
it, and cases: a key that is absent, has the class's default, null, or an odd value, with the facts that then differ, or
the error. Keys are those of all classes of the kind, and those of older files. Facts are read from the model: windows
from the masks that attention is called with, rotary positions from their frequencies. That they are all that matters is
checked: with the same weights, logits differ where facts do, and nowhere else. tests/gpt/config_keys.cpp and
tests/bert/config_keys.cpp hold the readers against the file.
"""
import json
import pathlib
import tempfile
import warnings

import torch
import transformers
from transformers.utils import logging

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
TEXT = 24  # tokens
ABSENT = object()
FULL, WINDOW = "full_attention", "sliding_attention"
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
SMALL = {"vocab_size": 37, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 48, "num_experts_per_tok": 2,
         "num_local_experts": 4, "num_experts": 4, "moe_intermediate_size": 16, "n_layer": 3, "n_embd": 32, "n_head": 4,
         "n_positions": 48, "dim": 32, "hidden_dim": 24, "n_layers": 3, "n_heads": 4, "embedding_size": 16}
# Of a family: its class, and what its small model has besides.
DECODERS = {
    "llama": ("LlamaConfig", {}),
    "mistral": ("MistralConfig", {"sliding_window": 7}),
    "qwen2": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    "phi3": ("Phi3Config", {"sliding_window": 7}),
    "gemma": ("GemmaConfig", {}),
    "gemma2": ("Gemma2Config", {"sliding_window": 7, "query_pre_attn_scalar": 9}),
    "gemma3_text": ("Gemma3TextConfig", {"sliding_window": 7, "query_pre_attn_scalar": 9, "sliding_window_pattern": 2}),
    "mixtral": ("MixtralConfig", {"sliding_window": 7}),
    "qwen3_moe": ("Qwen3MoeConfig", {"use_sliding_window": True, "sliding_window": 7, "norm_topk_prob": True}),
}
ENCODERS = {"bert": "BertConfig", "roberta": "RobertaConfig", "xlm-roberta": "XLMRobertaConfig",
            "distilbert": "DistilBertConfig", "albert": "AlbertConfig"}
# Odd values; a dict of several keys stands for itself.
ODD = {
    "vocab_size": [41], "hidden_size": [64], "intermediate_size": [40], "num_hidden_layers": [2],
    "num_attention_heads": [8, 6], "num_key_value_heads": [1, 4], "head_dim": [10], "max_position_embeddings": [40],
    "rms_norm_eps": [1e-3], "tie_word_embeddings": [True, False], "hidden_act": ["gelu", "gelu_new", "relu"],
    "hidden_activation": ["gelu", "relu"], "attention_bias": [True], "mlp_bias": [True],
    "sliding_window": [5], "use_sliding_window": [True, False], "max_window_layers": [2],
    "layer_types": [[WINDOW, FULL, WINDOW], [FULL, FULL, FULL], [WINDOW, WINDOW, FULL], [FULL, WINDOW, FULL]],
    "sliding_window_pattern": [3], "_sliding_window_pattern": [2], "query_pre_attn_scalar": [16],
    "attn_logit_softcapping": [2.0], "final_logit_softcapping": [3.0], "use_bidirectional_attention": [True],
    "num_experts_per_tok": [1], "num_local_experts": [3], "num_experts": [3], "moe_intermediate_size": [20],
    "norm_topk_prob": [False], "decoder_sparse_step": [2], "mlp_only_layers": [[1]], "router_jitter_noise": [0.1],
    "rope_theta": [5e4], "rope_local_base_freq": [2e4], "original_max_position_embeddings": [16],
    "partial_rotary_factor": [0.5],
    "rope_scaling": [
        {"type": "linear", "factor": 2.5}, {**LLAMA3, "original_max_position_embeddings": 16}, LLAMA3, YARN,
        {**YARN, "beta_slow": 0, "beta_fast": 4}, {**YARN, "attention_factor": 1.5}, {},
        {"type": "dynamic", "factor": 2.0},
        {**YARN, "mscale": 0.5, "mscale_all_dim": 0.7}],
    "rope_parameters": [
        {"rope_type": "linear", "rope_theta": 3e4, "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0},
        {FULL: {"rope_type": "linear", "rope_theta": 3e4, "factor": 2.0},
         WINDOW: {"rope_type": "default", "rope_theta": 2e4}},
        {FULL: {"rope_type": "default", "rope_theta": 3e4}},
        {"rope_type": "default", "rope_theta": 7e4}],
}
TOGETHER = [
    {"rope_scaling": LLAMA3, "original_max_position_embeddings": 16},
    {"rope_scaling": {**LLAMA3, "original_max_position_embeddings": 20}, "original_max_position_embeddings": 16},
    {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 5e4},
    {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default", "rope_theta": 3e4}},
    {"rope_parameters": None, "rope_theta": 5e4},
    {"layer_types": [WINDOW, FULL, WINDOW], "sliding_window": None},
    {"layer_types": [WINDOW, FULL, WINDOW], "use_sliding_window": False},
    {"layer_types": [WINDOW, FULL, WINDOW], "sliding_window": 5},
    {"layer_types": None, "sliding_window_pattern": 3},
    {"num_key_value_heads": None, "head_dim": None},
    {"num_experts": 3, "num_local_experts": 2},
    {"hidden_act": "gelu", "hidden_activation": None},
    {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"},
]
ODD_OF_ENCODERS = {
    "vocab_size": [41], "hidden_size": [64], "intermediate_size": [40], "num_hidden_layers": [2],
    "num_attention_heads": [8, 6], "max_position_embeddings": [40], "type_vocab_size": [1, 3],
    "hidden_act": ["relu", "gelu_new", "gelu", "mish"], "activation": ["relu", "gelu_new", "mish"],
    "layer_norm_eps": [1e-3],
    "pad_token_id": [3], "dim": [64], "hidden_dim": [40], "n_layers": [2], "n_heads": [8], "embedding_size": [12],
    "num_hidden_groups": [3], "inner_group_num": [2], "is_decoder": [True], "add_cross_attention": [True],
    "position_embedding_type": ["relative_key"], "sinusoidal_pos_embds": [True], "tie_word_embeddings": [False],
}
ODD_OF_GPT2 = {
    "vocab_size": [41], "n_positions": [40], "n_embd": [64], "n_layer": [2], "n_head": [8], "n_inner": [40],
    "activation_function": ["gelu", "gelu_pytorch_tanh", "relu"], "layer_norm_epsilon": [1e-3],
    "scale_attn_weights": [False], "scale_attn_by_inverse_layer_idx": [True], "reorder_and_upcast_attn": [True],
    "add_cross_attention": [True], "tie_word_embeddings": [False],
}
# Keys of a class that say how transformers trains, generates and names.
SILENT = {"initializer_range", "use_cache", "pad_token_id", "bos_token_id", "eos_token_id", "pretraining_tp",
          "attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "output_router_logits",
          "router_aux_loss_coef",
          "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
          "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "classifier_dropout_prob",
          "dropout", "qa_dropout", "seq_classif_dropout"}


def class_defaults(name):
    """The keys of a class itself, and their defaults, as JSON."""
    kind = getattr(transformers, name)
    fields = kind.__dataclass_fields__
    base = transformers.PreTrainedConfig.__dataclass_fields__
    return {key: f.default for key, f in fields.items()
            if (key not in base or key in ("pad_token_id", "tie_word_embeddings")) and not key.startswith("_")
            and isinstance(f.default, (int, float, str, bool, type(None), list))}


def number(x):
    return float(f"{float(x):.9g}")


def activation_of(module):
    x = torch.linspace(-3, 3, 50)
    known = {"silu": torch.nn.functional.silu(x), "relu": torch.relu(x), "gelu_erf": torch.nn.functional.gelu(x),
             "gelu": torch.nn.functional.gelu(x, approximate="tanh")}
    return next((name for name, y in known.items() if torch.allclose(module(x), y, atol=1e-6)), "another")


def decoder_facts(model, config):
    layers = model.model.layers
    seen, first_sees = {}, {}

    def note(index):
        def hook(module, args, kwargs):
            mask = kwargs["attention_mask"][0, 0] > -1
            seen[index], first_sees[index] = int(mask[-1].sum()), int(mask[0].sum())
        return hook

    hooks = [layer.self_attn.register_forward_pre_hook(note(i), with_kwargs=True) for i, layer in enumerate(layers)]
    logits = logits_of(model)
    for hook in hooks:
        hook.remove()
    first, rotary = layers[0].self_attn, model.model.rotary_emb
    mixed = getattr(layers[0].mlp, "experts", None)
    router = getattr(layers[0].mlp, "gate", None)
    kinds = getattr(config, "layer_types", None)
    nested = getattr(rotary, "layer_types", None) is not None

    def rope(i):
        prefix = f"{kinds[i]}_" if nested else ""
        scaling = getattr(rotary, prefix + "attention_scaling")
        return [number(x) for x in getattr(rotary, prefix + "inv_freq").tolist()] + [number(scaling)]

    mlp = layers[0].mlp
    joined = hasattr(first, "qkv_proj")
    width = first.o_proj.in_features
    head = first.head_dim
    scale = number(first.scaling * head ** 0.5)
    down = mixed.down_proj if mixed is not None else None
    act = mlp.act_fn if hasattr(mlp, "act_fn") else mlp.activation_fn if hasattr(mlp, "activation_fn") else mixed.act_fn
    norm = model.model.norm
    bias = [not joined and first.q_proj.bias is not None, first.o_proj.bias is not None]
    sparse = {hasattr(layer.mlp, "experts") for layer in layers}
    return {
        "layers": len(layers), "heads": width // head, "width": first.o_proj.out_features, "head": head,
        "kv_heads": (first.qkv_proj.out_features - width) // 2 // head if joined else first.k_proj.out_features // head,
        "hidden": down.shape[2] if down is not None else mlp.down_proj.in_features,
        "context": config.max_position_embeddings,
        "vocabulary": model.lm_head.out_features, "tied": int(model.lm_head.weight is model.model.embed_tokens.weight),
        "biases": 2 if bias[1] else 1 if bias[0] else 0,
        "mlp_biases": int(hasattr(mlp, "gate_proj") and mlp.gate_proj.bias is not None),
        "experts": mixed.num_experts if mixed is not None else 0, "all_sparse": int(len(sparse) == 1),
        "experts_per_token": router.top_k if router is not None else 0,
        "norms_weights": int(getattr(router, "norm_topk_prob", True)),
        "jitter": number(getattr(mlp, "jitter_noise", 0) or 0),
        "epsilon": number(getattr(norm, "variance_epsilon", getattr(norm, "eps", 0))),
        "windows": [0 if seen[i] == TEXT else seen[i] for i in range(len(layers))],
        "causal": int(set(first_sees.values()) == {1}),
        "rope": [rope(i) for i in range(len(layers))] if nested else [rope(0)],
        "scale": scale,  # Gemma 3 has its cap of scores in the module, and leaves it there
        "score_cap": number((config.attn_logit_softcapping or 0) if config.model_type == "gemma2" else 0),
        "logit_cap": number((config.final_logit_softcapping or 0) if hasattr(first, "attn_logit_softcapping") else 0),
        "activation": activation_of(act)}, logits


def gpt2_facts(model, config):
    block, table = model.transformer.h[0], model.transformer.wte
    return {"layers": len(model.transformer.h), "heads": block.attn.num_heads, "width": table.embedding_dim,
            "context": model.transformer.wpe.num_embeddings, "vocabulary": table.num_embeddings,
            "inner": block.mlp.c_fc.nf, "epsilon": number(block.ln_1.eps), "activation": activation_of(block.mlp.act),
            "tied": int(model.lm_head.weight is table.weight), "scaled": int(block.attn.scale_attn_weights),
            "by_layer": int(block.attn.scale_attn_by_inverse_layer_idx)}, logits_of(model)


def encoder_facts(model, config):
    if config.model_type == "albert":
        layer = model.encoder.albert_layer_groups[0].albert_layers[0]
        act, up, norm, heads = layer.activation, layer.ffn, layer.full_layer_layer_norm, config.num_attention_heads
        layers, shared = config.num_hidden_layers, [len(model.encoder.albert_layer_groups),
                                                    len(model.encoder.albert_layer_groups[0].albert_layers)]
    elif config.model_type == "distilbert":
        layer = model.transformer.layer[0]
        act, up, norm, heads = layer.ffn.activation, layer.ffn.lin1, layer.sa_layer_norm, layer.attention.n_heads
        layers, shared = len(model.transformer.layer), [1, 1]
    else:
        layer = model.encoder.layer[0]
        act, up, norm = layer.intermediate.intermediate_act_fn, layer.intermediate.dense, layer.output.LayerNorm
        heads, layers, shared = layer.attention.self.num_attention_heads, len(model.encoder.layer), [1, 1]
    tables = model.embeddings
    kinds = getattr(tables, "token_type_embeddings", None)
    pad = tables.padding_idx if hasattr(tables, "padding_idx") else None
    first = pad + 1 if config.model_type in ("roberta", "xlm-roberta") else 0
    return {"layers": layers, "heads": heads, "width": up.in_features, "hidden": up.out_features,
            "vocabulary": tables.word_embeddings.num_embeddings, "embedding": tables.word_embeddings.embedding_dim,
            "positions": tables.position_embeddings.num_embeddings, "segments": kinds.num_embeddings if kinds else 0,
            "first_position": first, "epsilon": number(norm.eps), "activation": activation_of(act), "shared": shared,
            "causal": int(bool(getattr(config, "is_decoder", False)) and config.model_type != "albert"
                          and config.model_type != "distilbert")}, logits_of(model)


def logits_of(model):
    torch.manual_seed(3)
    count = min(model.get_input_embeddings().num_embeddings, 37)
    with torch.no_grad():
        ids = torch.randint(4, count, (2, TEXT))
        found = model(ids, use_cache=False) if hasattr(model, "lm_head") else model(ids)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


class Family:
    def __init__(self, name, config_class, own, maker, facts):
        self.maker, self.facts_of = maker, facts
        self.defaults = {k: v for k, v in class_defaults(config_class).items() if k not in SILENT or
                         (k == "pad_token_id" and "oberta" in config_class)}
        self.base = {"model_type": name, **self.defaults}
        self.base |= {k: v for k, v in SMALL.items() if k in self.defaults} | own
        for key in ("rope_parameters", "layer_types"):
            if self.base.get(key, 0) is None:
                del self.base[key]
        if config_class not in ("RobertaConfig", "XLMRobertaConfig"):
            self.base["pad_token_id"] = None if maker is not transformers.AutoModel else 0
        self.weights = None
        self.facts, self.logits = self.made_of(self.base)

    def made_of(self, values):
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / "config.json").write_text(json.dumps(values))
            config = transformers.AutoConfig.from_pretrained(place)
        torch.manual_seed(1)
        model = self.maker.from_config(config, attn_implementation="eager").eval()
        if self.weights is None:
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(torch.randn_like(p) * 0.2)
            self.weights = {k: v.clone() for k, v in model.state_dict().items()}
        elif {k: v.shape for k, v in model.state_dict().items()} == {k: v.shape for k, v in self.weights.items()}:
            model.load_state_dict(self.weights)
        return self.facts_of(model, config)

    def case(self, change):
        values = {k: v for k, v in {**self.base, **change}.items() if v is not ABSENT}
        said = {"set": {k: v for k, v in change.items() if v is not ABSENT},
                "absent": [k for k, v in change.items() if v is ABSENT]}
        try:
            facts, logits = self.made_of(values)
        except Exception as error:
            return {**said, "error": type(error).__name__}
        changed = {k: v for k, v in facts.items() if v != self.facts[k]}
        sizes = {"width", "hidden", "vocabulary", "heads", "kv_heads", "head", "layers", "experts", "embedding",
                 "positions", "segments", "context", "inner", "biases", "mlp_biases", "tied", "shared", "all_sparse"}
        if not sizes & changed.keys() and "jitter" not in changed:
            same = torch.allclose(logits, self.logits, atol=1e-6)
            if same == bool(changed.keys()):
                print("!! ", self.base["model_type"], said, changed, (logits - self.logits).abs().max().item())
        return {**said, "facts": changed}

    def cases(self, odd, keys):
        for key in sorted(keys):
            if key in self.base:
                yield {key: ABSENT}
            if key in self.defaults:
                yield {key: self.defaults[key]}
            yield {key: None}
            for value in odd.get(key, []):
                yield {key: value}

    def record(self, odd, keys, together=()):
        return {"defaults": self.defaults, "base": self.base, "facts": self.facts,
                "cases": [self.case(change) for change in [*self.cases(odd, keys), *together]]}


def main():
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    causal, plain = transformers.AutoModelForCausalLM, transformers.AutoModel
    made = {"transformers": transformers.__version__, "decoders": {}, "gpt2": {}, "encoders": {}}
    decoders = {n: Family(n, kind, own, causal, decoder_facts) for n, (kind, own) in DECODERS.items()}
    for name, family in decoders.items():
        keys = {k for f in decoders.values() for k in f.defaults} | ODD.keys()
        made["decoders"][name] = family.record(ODD, keys, TOGETHER)
    gpt2 = Family("gpt2", "GPT2Config", {}, causal, gpt2_facts)
    made["gpt2"]["gpt2"] = gpt2.record(ODD_OF_GPT2, gpt2.defaults.keys())
    encoders = {n: Family(n, kind, {}, plain, encoder_facts) for n, kind in ENCODERS.items()}
    for name, family in encoders.items():
        made["encoders"][name] = family.record(ODD_OF_ENCODERS, ODD_OF_ENCODERS.keys() | family.defaults.keys())
    lines = json.dumps(made, separators=(",", ":"))
    lines = lines.replace('},{"set"', '},\n{"set"').replace('"cases":[', '"cases":[\n')
    (DATA / "families.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
