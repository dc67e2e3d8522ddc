"""Tokenizers as open models have them, trained on a text at hand, and each part of a pipeline alone.

    pip install tokenizers==0.23.3 sentencepiece
"""
import os
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def charsmap(rule="nmt_nfkc"):
    """Rules of SentencePiece, as its models have them: those of a name, or pairs of texts."""
    with tempfile.TemporaryDirectory() as folder:
        text, prefix, rules = (os.path.join(folder, name) for name in ("text", "m", "rules.tsv"))
        with open(text, "w") as file:
            file.write("some words\n" * 50)
        chosen = {"normalization_rule_name": rule}
        if not isinstance(rule, str):
            with open(rules, "w") as file:
                file.writelines("\t".join(" ".join(f"{ord(c):X}" for c in t) for t in pair) + "\n" for pair in rule)
            chosen = {"normalization_rule_tsv": rules}
        sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=prefix, vocab_size=11, model_type="bpe",
                                                 minloglevel=5, **chosen)
        proto = sentencepiece_model_pb2.ModelProto()
        with open(prefix + ".model", "rb") as file:
            proto.ParseFromString(file.read())
    return proto.normalizer_spec.precompiled_charsmap


# What the recorded tests have, since SentencePiece's own rules take 300 KB.
FEW_RULES = [("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\u200b", ""), ("ﬁ", "fi"), ("Ａ", "A"),
             ("½", "1/2"), ("e\u0301", "é"), ("a\u0301", "á"), ("ｶ", "カ"), ("ｶﾞ", "ガ"), ("…", "...")]


def special(*texts, **options):
    return [AddedToken(t, normalized=False, special=True, **options) for t in texts]


def byte_level_bpe(text, size, before, special_tokens=(), normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = before
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def after_split(*patterns):
    """Splits by patterns, and then into the characters of bytes."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
                                   + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(tokenizer, single, pair, *marks):
    return processors.TemplateProcessing(single=single, pair=pair,
                                         special_tokens=[(m, tokenizer.token_to_id(m)) for m in marks])


def gpt2(text, size):
    return byte_level_bpe(text, size, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])


def smollm(text, size):
    before = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                      pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return byte_level_bpe(text, size, before, special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))


def llama3(text, size):
    tokenizer = byte_level_bpe(text, size, after_split(LLAMA3), ignore_merges=True)
    begin = "<|begin_of_text|>"
    tokenizer.add_special_tokens(special(begin, "<|end_of_text|>", "<|eot_id|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        template(tokenizer, f"{begin} $A", f"{begin} $A {begin}:1 $B:1", begin)])
    return tokenizer


def qwen2(text, size):
    tokenizer = byte_level_bpe(text, size, after_split(QWEN2), normalizer=normalizers.NFC())
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def deepseek(text, size):
    before = after_split(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                         r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
                         r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
    tokenizer = byte_level_bpe(text, size, before)
    begin, end = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
    tokenizer.add_special_tokens(special(begin, end))
    tokenizer.post_processor = template(tokenizer, f"{begin} $A", f"{begin} $A {begin}:1 $B:1", begin)
    return tokenizer


def gpt4o(text, size):
    return byte_level_bpe(text, size, after_split(GPT4O), special("<|endoftext|>"))


def phi2(text, size):
    tokenizer = byte_level_bpe(text, size, pre_tokenizers.ByteLevel(add_prefix_space=False), special("<|endoftext|>"))
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(20, 1, -1)]
                         + [AddedToken("\t" * n, normalized=True) for n in range(5, 1, -1)])
    return tokenizer


def roberta(text, size):
    tokenizer = byte_level_bpe(text, size, pre_tokenizers.ByteLevel(add_prefix_space=False),
                               special("<s>", "<pad>", "</s>", "<unk>") + special("<mask>", lstrip=True))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def sentencepiece_bpe(text, size, normalizer, decoder, marks, **options):
    """A BPE of Llama 2's kind: words are learned with a mark before them, and texts are spelled whole."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, **options))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoder
    tokenizer.train_from_iterator([text], BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False,
                                                     limit_alphabet=90, special_tokens=marks + BYTES))
    tokenizer.pre_tokenizer = None
    return tokenizer


def plain_bytes(tokenizer, marks):
    """Without the byte tokens among the added ones."""
    import json
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [a for a in file["added_tokens"] if a["content"] in marks]
    file["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(file))


def llama2(text, size):
    marks = ["<unk>", "<s>", "</s>"]
    tokenizer = plain_bytes(sentencepiece_bpe(
        text, size, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                           decoders.Strip(" ", 1, 0)]), marks), marks)
    tokenizer.post_processor = template(tokenizer, "<s> $A", "<s> $A <s>:1 $B:1", "<s>")
    return tokenizer


def mistral(text, size):
    marks = ["<unk>", "<s>", "</s>"]
    tokenizer = plain_bytes(sentencepiece_bpe(
        text, size, None, decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                             decoders.Strip(" ", 1, 0)]), marks), marks)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.post_processor = template(tokenizer, "<s> $A", "<s> $A <s>:1 $B:1", "<s>")
    return tokenizer


def gemma(text, size):
    marks = ["<pad>", "<eos>", "<bos>", "<unk>"]
    tokenizer = plain_bytes(sentencepiece_bpe(
        text, size, normalizers.Replace(" ", "▁"),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]), marks), marks)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 6)]
                         + [AddedToken("▁" * n, normalized=False) for n in range(2, 6)])
    tokenizer.post_processor = template(tokenizer, "<bos> $A", "<bos> $A <bos>:1 $B:1", "<bos>")
    return tokenizer


def bert(text, size, lowercase=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([text], WordPieceTrainer(
        vocab_size=size, limit_alphabet=150, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = template(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS]", "[SEP]")
    return tokenizer


def cased_bert(text, size):
    return bert(text, size, lowercase=False)


def unigram(text, size, normalizer, before, marks, unknown="<unk>"):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = before
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator([text], UnigramTrainer(vocab_size=size, unk_token=unknown, show_progress=False,
                                                         special_tokens=marks))
    return tokenizer


def t5(text, size, rules="nmt_nfkc"):
    tokenizer = unigram(text, size, normalizers.Precompiled(charsmap(rules)),
                        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
                        ["<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens(special("<extra_id_0>", lstrip=True, rstrip=True) + special("<extra_id_1>"))
    tokenizer.post_processor = template(tokenizer, "$A </s>", "$A </s> $B </s>", "</s>")
    return tokenizer


def xlm_roberta(text, size, rules="nmt_nfkc"):
    tokenizer = unigram(text, size, normalizers.Sequence([
        normalizers.Precompiled(charsmap(rules)), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Metaspace(), ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.add_special_tokens(special("<mask>", lstrip=True))
    tokenizer.post_processor = template(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>", "<s>", "</s>")
    return tokenizer


def albert(text, size, rules="nmt_nfkc"):
    tokenizer = unigram(text, size, normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Precompiled(charsmap(rules)), normalizers.Replace(Regex(" {2,}"), " ")]),
        pre_tokenizers.Metaspace(), ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = template(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS]", "[SEP]")
    return tokenizer


FAMILIES = [gpt2, smollm, llama3, qwen2, deepseek, gpt4o, phi2, roberta, llama2, mistral, gemma, bert, cased_bert, t5,
            xlm_roberta, albert]


def spelled_bytes(normalizer=None, before=None, added=()):
    """A part alone: ids are the bytes of the text, with ## before each character that does not begin a word."""
    tokenizer = Tokenizer(models.BPE({b: i for i, b in enumerate(BYTES)}, [], byte_fallback=True,
                                     continuing_subword_prefix="##"))
    if normalizer:
        tokenizer.normalizer = normalizer
    if before:
        tokenizer.pre_tokenizer = before
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def decoded(decoder):
    """A decoder alone, for the characters of ASCII and what decoders look for."""
    texts = [chr(c) for c in range(33, 127)] + ["▁", "▁▁", "▁a", "a▁", "Ġ", "Ġb", "é", " ", "  ", "##", "##a", "a##",
                                                " n't", " do not", " .", "</w>", "a</w>", "<0xC3>", "<0xA9>", "<0xa9>",
                                                "<0xZZ>"]
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(dict.fromkeys(["<unk>", *texts]))}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    tokenizer.decoder = decoder
    return tokenizer


def parts(*more_rules):
    """Each part by a name."""
    n, p, d = normalizers, pre_tokenizers, decoders
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    yield from ((form, spelled_bytes(getattr(n, form)())) for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase",
                                                                     "StripAccents"))
    for flags in ((True,) * 4, (True, True, False, False), (False, False, True, False), (False, False, False, True),
                  (True, True, None, True)):
        yield f"BertNormalizer {flags}", spelled_bytes(n.BertNormalizer(*flags))
    for rule in more_rules or ("nmt_nfkc", "nfkc", "nmt_nfkc_cf"):
        yield f"Precompiled {len(rule)}", spelled_bytes(n.Precompiled(charsmap(rule)))
    yield "Strip left", spelled_bytes(n.Strip(True, False))
    yield "Strip right, Prepend, Replace", spelled_bytes(n.Sequence([n.Strip(False, True), n.Prepend("▁"),
                                                                     n.Replace(" ", "▁")]))
    yield "Replace by an expression", spelled_bytes(n.Replace(Regex(r"\s+|[0-9]"), "_"))
    for behavior in behaviors:
        yield f"Split {behavior}", spelled_bytes(before=p.Split(Regex(r"[aeiou]|\s+"), behavior))
        yield f"Split {behavior} inverted", spelled_bytes(before=p.Split(Regex(r"[aeiou]|\s+"), behavior, invert=True))
        yield f"Punctuation {behavior}", spelled_bytes(before=p.Punctuation(behavior))
    yield "Split by a lookahead", spelled_bytes(before=p.Split(Regex(r"(?=[A-Z])"), "isolated"))
    yield "Split by a text", spelled_bytes(before=p.Split("e", "merged_with_next"))
    for individual in (True, False):
        yield f"Digits {individual}", spelled_bytes(before=p.Digits(individual))
    for prefix in (True, False):
        for regex in (True, False):
            yield f"ByteLevel {prefix} {regex}", spelled_bytes(before=p.ByteLevel(prefix, use_regex=regex))
    for scheme in ("always", "never", "first"):
        for split in (True, False):
            yield f"Metaspace {scheme} {split}", spelled_bytes(
                before=p.Metaspace(prepend_scheme=scheme, split=split), added=special("<s>"))
    for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer"):
        yield name, spelled_bytes(before=getattr(p, name)())
    yield "Whitespace, Metaspace, ByteLevel, Digits", spelled_bytes(before=p.Sequence([
        p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first"), p.ByteLevel(True), p.Digits(True)]))
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for on in (0, 1, 2, 4, 6, 7, 8, 9, 14, 16, 22, 24, 31):
        options = {flag: bool(on >> i & 1) for i, flag in enumerate(flags)}
        yield f"added tokens {options}", spelled_bytes(n.Lowercase(), p.WhitespaceSplit(), [
            AddedToken(t, **options) for t in ("the", "Dear", "s,", "<|endoftext|>", "e")])
    yield "BPE, unknown characters", Tokenizer(models.BPE({"<unk>": 0, "a": 1, "e": 2, "ae": 3}, [("a", "e")],
                                                          unk_token="<unk>"))
    yield "BPE, unknown characters as one", Tokenizer(models.BPE({"<unk>": 0, "a": 1, "e": 2, "ae": 3}, [("a", "e")],
                                                                 unk_token="<unk>", fuse_unk=True))
    yield "BPE, without unknown characters", Tokenizer(models.BPE({"a": 1, "e": 2, "ae": 3}, [("a", "e")]))
    yield "BPE, some bytes", Tokenizer(models.BPE(
        {"<unk>": 0, "a": 1, **{b: i + 2 for i, b in enumerate(BYTES[:200])}}, [],
        unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    suffixed = Tokenizer(models.BPE({"<unk>": 0, "h": 1, "e</w>": 2, "t": 3, "he</w>": 4, "the</w>": 5, "e": 6,
                                     "th": 7},
                                    [("t", "h"), ("h", "e</w>"), ("t", "he</w>")], unk_token="<unk>",
                                    end_of_word_suffix="</w>"))
    suffixed.pre_tokenizer = p.Whitespace()
    suffixed.decoder = d.BPEDecoder()
    yield "BPE, a suffix", suffixed
    prefixed = Tokenizer(models.BPE({"<unk>": 0, "t": 1, "##h": 2, "##e": 3, "th": 4, "the": 5, "e": 6},
                                    [("t", "##h"), ("th", "##e")], unk_token="<unk>", continuing_subword_prefix="##"))
    prefixed.pre_tokenizer = p.Whitespace()
    yield "BPE, a prefix", prefixed
    words = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, "don": 2, "'": 3}, "<unk>"))
    words.pre_tokenizer = p.Whitespace()
    yield "WordLevel", words
    pieces = [("<unk>", 0.0), ("a", -1.5), ("e", -1.25), ("ae", -2.5), ("th", -2.0), ("the", -3.5), (" ", -1.0)]
    yield "Unigram", Tokenizer(models.Unigram(pieces, 0))
    yield "Unigram, bytes", Tokenizer(models.Unigram(pieces + [(b, -9.0) for b in BYTES], 0, byte_fallback=True))
    for name, decoder in (("no decoder", None), ("ByteLevel", d.ByteLevel()), ("WordPiece", d.WordPiece()),
                          ("WordPiece, no cleanup", d.WordPiece(cleanup=False)), ("Metaspace", d.Metaspace()),
                          ("Metaspace never", d.Metaspace(prepend_scheme="never")), ("BPEDecoder", d.BPEDecoder()),
                          ("ByteFallback", d.ByteFallback()), ("Fuse", d.Fuse()),
                          ("Strip", d.Sequence([d.Strip("a", 1, 0)])), 
                          ("Strip the end", d.Sequence([d.Fuse(), d.Strip("e", 2, 1)])),
                          ("Replace", d.Replace("▁", " ")), ("Replace an expression", d.Replace(Regex("[▁#]+"), "_"))):
        yield f"decoder {name}", decoded(decoder)
