#!/usr/bin/env python3
"""Converts small random models of Hugging Face's to GGUF and back with gpt_convert, and compares what others make of
them: the package gguf reads the tensors and metadata, llama-cpp-python the tokens and greedy continuations, and
transformers the folder that a file was turned into.

    python3 tests/parity/compare_gguf.py PATH/TO/gpt_convert [family | tokenizers]...

"tokenizers": tokenizers with one setting changed, and GGUF files that leave something unsaid, with special tokens
parsed: each has llama.cpp's tokens, or is refused.

It needs torch, transformers, tokenizers, sentencepiece, gguf, and llama-cpp-python. One line a family and type.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from tokenizers import Regex, normalizers, pre_tokenizers

HERE = Path(__file__).resolve().parent
TEXT = HERE.parent / "data" / "tokenizer" / "train.txt"
TEXTS = ["Hello, world! 12345 it's 7 o'clock.", "  two blanks\n\n\tand a tab", "Größe, naïve, 東京, 🙂", "x = y[3] + 4;"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"


def byte_level(folder, pattern=None, digits=False, nfc=False, begin=None, end="<|end|>", ignore_merges=False):
    """A byte-level BPE of 600 tokens."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=ignore_merges))
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    special = [token for token in (begin, end) if token]
    tokenizer.train([str(TEXT)], tokenizers.trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    if begin:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, tokenizer.token_to_id(begin))])
    save_tokenizer(folder, tokenizer, bos_token=begin or end, eos_token=end)


def sentence_piece(folder, prefix=True):
    """A SentencePiece BPE of 600 tokens, as transformers' converter for Llama 2 and Gemma writes it."""
    model, text = folder / "tokenizer.model", folder / "ascii.txt"
    text.write_bytes(TEXT.read_bytes().decode().encode("ascii", "ignore"))  # other letters become bytes
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "tokenizer"), vocab_size=600, model_type="bpe", byte_fallback=True,
        add_dummy_prefix=prefix, normalization_rule_name="identity", remove_extra_whitespaces=False,
        minloglevel=2, allow_whitespace_only_pieces=True)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    tokens = [pieces.id_to_piece(i) for i in range(len(pieces))]
    ids = {token: i for i, token in enumerate(tokens)}
    merges = sorted(((-pieces.get_score(i), ids[t[:cut]], ids[t[cut:]]) for i, t in enumerate(tokens)
                     if not (pieces.is_control(i) or pieces.is_byte(i) or pieces.is_unknown(i))
                     for cut in range(1, len(t)) if t[:cut] in ids and t[cut:] in ids))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab=ids, merges=[(tokens[a], tokens[b]) for _, a, b in merges], unk_token="<unk>", fuse_unk=True,
        byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()]
        + ([tokenizers.decoders.Strip(" ", 1, 0)] if prefix else []))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", ids["<s>"])])
    model.unlink()
    text.unlink()
    save_tokenizer(folder, tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def save_tokenizer(folder, tokenizer, **special):
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


SIZES = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
             max_position_embeddings=128, vocab_size=608)
WINDOWS = dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=16)
FAMILIES = {
    "gpt2": (transformers.GPT2Config(n_layer=3, n_head=4, n_embd=64, n_positions=128, vocab_size=608), byte_level, {}),
    "llama": (transformers.LlamaConfig(**SIZES, tie_word_embeddings=True), sentence_piece, {}),
    "llama3": (transformers.LlamaConfig(**SIZES, rope_parameters=dict(
        rope_type="llama3", rope_theta=5e5, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192)), byte_level,
        dict(pattern=LLAMA3, ignore_merges=True, begin="<|begin|>")),
    "smollm": (transformers.LlamaConfig(**SIZES, tie_word_embeddings=True), byte_level, dict(digits=True)),
    "mistral": (transformers.MistralConfig(**SIZES, sliding_window=None), sentence_piece, {}),
    "qwen2": (transformers.Qwen2Config(**SIZES), byte_level, dict(pattern=LLAMA3.replace("{1,3}", ""), nfc=True)),
    "qwen3": (transformers.Qwen3Config(**SIZES, head_dim=32), byte_level,
              dict(pattern=LLAMA3.replace("{1,3}", ""), nfc=True)),
    "gemma": (transformers.GemmaConfig(**SIZES, head_dim=32), sentence_piece, dict(prefix=False)),
    "gemma2": (transformers.Gemma2Config(**SIZES, **WINDOWS), sentence_piece, dict(prefix=False)),
    "gemma3": (transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 6}, **WINDOWS), sentence_piece,
               dict(prefix=False)),
}


def make(name, folder):
    """A tokenizer, and a model with random biases and norms that was trained on a text: it is sure of what follows."""
    config, tokenizer, options = FAMILIES[name]
    folder.mkdir()
    tokenizer(folder, **options)
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    tokens = torch.tensor(transformers.AutoTokenizer.from_pretrained(folder)(TEXT.read_text())["input_ids"])
    step = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(300):
        starts = torch.randint(0, len(tokens) - 64, (8,))
        ids = torch.stack([tokens[at:at + 64] for at in starts])
        loss = model(ids, labels=ids).loss
        step.zero_grad()
        loss.backward()
        step.step()
    model.save_pretrained(folder)
    return model


def greedy(model, prompt, count):
    """The continuation, and the logits of its first token."""
    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            logits = model(torch.tensor([tokens])).logits[0, -1]
            first = logits if len(tokens) == len(prompt) else first
            tokens.append(int(logits.argmax()))
    return tokens[len(prompt):], first.numpy()


def llama_greedy(model, prompt, count):
    tokens = list(prompt)
    model.reset()
    model.eval(tokens)
    first = model.scores[model.n_tokens - 1].copy()
    for _ in range(count):
        tokens.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        model.eval(tokens[-1:])
    return tokens[len(prompt):], first


def replaced(**changes):
    return lambda part: part.update(changes)


def added(content, **changes):
    """Adds a token to a tokenizer.json, with these attributes."""
    def edit(whole):
        vocab = whole["model"]["vocab"]
        vocab[content] = len(vocab)
        whole["added_tokens"].append(dict(id=vocab[content], content=content, single_word=False, lstrip=False,
                                          rstrip=False, normalized=False, special=True) | changes)
    return edit


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


def metaspace(scheme, split=False):
    return replaced(normalizer=None, pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme,
                                                    "split": split})


PIECES = {
    "as it is": lambda t: None,
    "replace": replaced(normalizer=REPLACE),
    "metaspace first": metaspace("first"), "metaspace always": metaspace("always"),
    "metaspace never": metaspace("never"),
    "metaspace never, split": metaspace("never", True),
    "lstrip": added("<x>", lstrip=True), "rstrip": added("<x>", rstrip=True),
    "single_word": added("<x>", single_word=True), "normalized": added("<x>", normalized=True),
    "normalized, replace": lambda t: (added("<x>", normalized=True)(t), t.update(normalizer=REPLACE)),
    "not special": added("<x>", special=False), "with a blank": added("<x y>"), "of blanks": added("▁▁▁"),
    "spelled": lambda t: t["model"]["vocab"].update({"<|im_end|>": len(t["model"]["vocab"])}),
    "two before": lambda t: t.update(post_processor={"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {
            t: {"id": t, "ids": [i], "tokens": [t]} for i, t in ((1, "<s>"), (2, "</s>"))}}),
    "without a post-processor": replaced(post_processor=None),
}
BYTES = {
    "as it is": lambda t: None, "lstrip": PIECES["lstrip"], "rstrip": PIECES["rstrip"],
    "single_word": PIECES["single_word"], "normalized": PIECES["normalized"], "not special": PIECES["not special"],
    "with a blank": PIECES["with a blank"], "spelled": PIECES["spelled"],
    "roberta": lambda t: t.update(post_processor={"type": "RobertaProcessing", "sep": ["<|end|>", 0],
                                                  "cls": ["<|end|>", 0], "trim_offsets": True,
                                                  "add_prefix_space": False}),
}
SPECIAL_TEXTS = TEXTS + ["<s>Hello", "a </s> b", "a</s>b", " <s> <s>x", "Hello <x> world<x>", "x<x y>z  <x>",
                         "<unk> <|im_end|>a", "   three   four", "<|end|> b", "", " "]


def tokens_of(file, text):
    import llama_cpp
    llama = tokens_of.open.get(file) or llama_cpp.Llama(str(file), vocab_only=True, verbose=False)
    tokens_of.open = {file: llama}
    return llama.tokenize(text.encode(), add_bos=True, special=True)


tokens_of.open = {}


def compare_tokenizers(convert, work):
    """Tokenizers with a change, to GGUF: equal there, or refused."""
    for kind, base, cases in (("pieces", sentence_piece, PIECES), ("bytes", byte_level, BYTES)):
        for i, (name, edit) in enumerate(cases.items()):
            folder = work / f"{kind}{i}"
            folder.mkdir()
            base(folder)
            whole = json.loads((folder / "tokenizer.json").read_text())
            edit(whole)
            (folder / "tokenizer.json").write_text(json.dumps(whole))
            transformers.AutoModelForCausalLM.from_config(
                transformers.LlamaConfig(**SIZES | dict(num_hidden_layers=1))).save_pretrained(folder)
            file = folder / "model.gguf"
            done = subprocess.run([convert, folder, "--out", file], capture_output=True, text=True)
            if done.returncode:
                said = (done.stderr or done.stdout).split("json: ")[-1].strip()
                print(f"{kind}, {name}: refused: {said}", flush=True)
                continue
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
            other = [t for t in SPECIAL_TEXTS if tokens_of(file, t) != tokenizer(t)["input_ids"]]
            print(f"{kind}, {name}: {len(SPECIAL_TEXTS) - len(other)} of {len(SPECIAL_TEXTS)} texts have llama.cpp's "
                  f"tokens", flush=True)
            assert not other, [(t, tokens_of(file, t), tokenizer(t)["input_ids"]) for t in other]


def compare_unsaid(convert, work):
    """GGUF files that leave something unsaid, to a folder: its tokens are those of llama.cpp."""
    for pre in ("gpt-2", "smollm", "llama-bpe", "llama3", "llama-v3", "dbrx", "qwen2", "phi-2", "smaug-bpe",
                "deepseek-r1-qwen", None):
        for spelled in ([], ["<|im_end|>", "<|eot_id|>", "</s>", "<|fim_prefix|>", "[PAD]", "<|channel|>", "<x>"]):
            folder = work / f"{pre}_{len(spelled)}"
            folder.mkdir()
            (byte_level if pre else sentence_piece)(folder)
            whole = json.loads((folder / "tokenizer.json").read_text())
            vocab = whole["model"]["vocab"]
            types = {t["content"]: 3 for t in whole["added_tokens"]} | {"<unk>": 2}
            if not pre:
                types |= {f"<0x{b:02X}>": 6 for b in range(256)}
            spelled = [t for t in spelled if t not in vocab]
            tokens = sorted(vocab, key=vocab.get) + spelled
            file = folder / "unsaid.gguf"
            writer = gguf.GGUFWriter(file, "llama")
            for key, value in dict(block_count=1, context_length=64, embedding_length=8, feed_forward_length=8,
                                   head_count=1, layer_norm_rms_eps=1e-5).items():
                getattr(writer, f"add_{key}")(value)
            writer.add_tokenizer_model("gpt2" if pre else "llama")
            writer.add_token_list(tokens)
            writer.add_token_types([types.get(t, 1) for t in tokens])
            if pre:
                writer.add_tokenizer_pre(pre)
                writer.add_token_merges([" ".join(m) for m in whole["model"]["merges"]])
                writer.add_bos_token_id(0)
            else:
                ranks = {}
                for i, m in enumerate(whole["model"]["merges"]):
                    ranks.setdefault("".join(m), -float(i))
                writer.add_token_scores([ranks.get(t, -1e6) if types.get(t, 1) == 1 else 0.0 for t in tokens])
            for name, shape in {"token_embd": (len(tokens), 8), "output_norm": (8,), "blk.0.attn_norm": (8,),
                                "blk.0.ffn_norm": (8,), "blk.0.attn_q": (8, 8), "blk.0.attn_k": (8, 8),
                                "blk.0.attn_v": (8, 8), "blk.0.attn_output": (8, 8), "blk.0.ffn_gate": (8, 8),
                                "blk.0.ffn_up": (8, 8), "blk.0.ffn_down": (8, 8)}.items():
                writer.add_tensor(name + ".weight", np.zeros(shape, np.float32))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            subprocess.run([convert, file, "--out", folder / "back"], check=True, stdout=subprocess.PIPE)
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "back" / "tokenizer.json"))
            texts = SPECIAL_TEXTS + [f"a{t}b {t}" for t in spelled]
            other = [t for t in texts if tokens_of(file, t) != tokenizer(t)["input_ids"]]
            print(f"{pre or 'pieces'} unsaid, {len(spelled)} spelled: {len(texts) - len(other)} of {len(texts)} texts "
                  f"have llama.cpp's tokens", flush=True)
            assert not other, [(t, tokens_of(file, t), tokenizer(t)["input_ids"]) for t in other]


def main():
    import llama_cpp
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    convert, names = sys.argv[1], sys.argv[2:] or [*FAMILIES, "tokenizers"]
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            if name == "tokenizers":
                compare_tokenizers(convert, Path(work))
                compare_unsaid(convert, Path(work))
                tokens_of.open.clear()
                continue
            folder = Path(work) / name
            model = make(name, folder)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            prompt = tokenizer(TEXTS[0])["input_ids"]
            for kind in ("f32", "f16", "bf16", "q8_0"):
                file, back = folder / f"{kind}.gguf", folder / f"{kind}_back"
                subprocess.run([convert, folder, "--out", file, "--type", kind], check=True, stdout=subprocess.PIPE)
                reader = gguf.GGUFReader(file)
                values = sum(int(np.prod(t.shape)) for t in reader.tensors if t.name != "rope_freqs.weight")
                own = sum(p.numel() for p in model.parameters())
                assert values == own, f"{values} values of {own}"
                assert reader.get_field("tokenizer.chat_template").contents() == TEMPLATE
                subprocess.run([convert, file, "--out", back], check=True, stdout=subprocess.PIPE)
                again = transformers.AutoModelForCausalLM.from_pretrained(back, dtype=torch.float32).eval()
                stored = again.state_dict()
                if kind == "f32":
                    worst = max(float((stored[k] - v).abs().max()) for k, v in model.state_dict().items())
                    assert worst <= (1e-6 if "gemma" in name else 0), f"a tensor came back {worst} off"
                    there = transformers.AutoTokenizer.from_pretrained(back)
                    for text in TEXTS:
                        assert there(text)["input_ids"] == tokenizer(text)["input_ids"], text
                        assert there.decode(there(text)["input_ids"]) == tokenizer.decode(tokenizer(text)["input_ids"])
                    assert there.chat_template == TEMPLATE
                llama = llama_cpp.Llama(str(file), n_ctx=128, verbose=False, logits_all=True, n_threads=2,
                                        type_k=0, type_v=0)  # a cache of F32
                for text in TEXTS:
                    theirs = llama.tokenize(text.encode(), add_bos=True, special=False)
                    assert theirs == tokenizer(text)["input_ids"], (text, theirs, tokenizer(text)["input_ids"])
                (wanted, logits), (found, theirs) = greedy(again, prompt, 40), llama_greedy(llama, prompt, 40)
                same = next((i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), 40)
                print(f"{name} {kind}: {same} of 40 tokens ({len(set(wanted))} different), logits within "
                      f"{np.abs(logits - theirs).max() / np.abs(logits).max():.1e} of the largest", flush=True)


if __name__ == "__main__":
    main()
