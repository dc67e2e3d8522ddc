// The tokenizer in the metadata of a GGUF file, from tokenizer.json and back: byte-level BPE ("gpt2") and
// SentencePiece's BPE ("llama").

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gradus/core/printable.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/unicode.hpp>

#include "../model_folder.hpp"
#include "generation_config.hpp"
#include "gguf.hpp"

namespace gpt {

namespace fs = std::filesystem;
using nlohmann::json, nlohmann::ordered_json;

namespace {

// ---- Tables

// What llama.cpp calls a normalizer and a pre-tokenizer of byte-level BPE. The first row that fits is written.
struct pre_tokenizer {
  const char* name;
  const char* normalizer;
  const char* parts;  // of the Sequence
  bool ignore_merges = false;
  bool adds_begin = false;  // unless add_bos_token says otherwise
};
constexpr const char* gpt2_parts = R"([{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}])";
constexpr const char* smollm_parts = R"([{"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}])";
constexpr const char* llama3_parts = R"x([{"type": "Split", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*)x"
                                     R"x(|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}])x";
constexpr const char* qwen2_parts = R"x([{"type": "Split", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*)x"
                                    R"x(|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}])x";
constexpr std::array pre_tokenizers{pre_tokenizer{"gpt-2", "null", gpt2_parts},
                                    pre_tokenizer{"smollm", "null", smollm_parts},
                                    pre_tokenizer{"llama-bpe", "null", llama3_parts, true, true},
                                    pre_tokenizer{"dbrx", "null", llama3_parts},
                                    pre_tokenizer{"qwen2", R"({"type": "NFC"})", qwen2_parts},
                                    pre_tokenizer{"phi-2", "null", gpt2_parts},
                                    pre_tokenizer{"llama3", "null", llama3_parts, true, true},
                                    pre_tokenizer{"llama-v3", "null", llama3_parts, true, true},
                                    pre_tokenizer{"smaug-bpe", "null", llama3_parts},
                                    pre_tokenizer{"deepseek-r1-qwen", R"({"type": "NFC"})", qwen2_parts}};

// How a SentencePiece BPE turns blanks into "▁", and whether one is put before a text and behind each special token:
// Metaspace's "first" puts it before a text alone, its "always" not before a blank.
struct blanks {
  const char *normalizer, *pre_tokenizer;
  bool prefix;
};
constexpr std::array blank_rules{
    blanks{R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
               {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})",
           "null", true},
    blanks{R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", "null", false},
    blanks{R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})",
           R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false})",
           false},
    blanks{"null", R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false})", false}};

// Tokens that llama.cpp (0.3.36 of its Python package) takes for special ones by their spelling, whatever their type:
// the ends of texts and turns, what it always shows, and, where no key names a token of the kind, those for code.
struct spelled_tokens {
  const char* key;  // behind "tokenizer.ggml.", without "_token_id"; null: always
  std::vector<std::string_view> spellings;
};
const std::vector<spelled_tokens>& special_spellings() {
  static const std::vector<spelled_tokens> all{
      {nullptr,
       {"<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "<｜end▁of▁sentence｜>",
        "[e~[",
        "<|channel|>",
        "<|message|>",
        "<|start|>",
        "<|constrain|>"}},
      {"fim_pre",
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>"}},
      {"fim_suf",
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>"}},
      {"fim_mid",
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>"}},
      {"fim_pad", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"fim_rep", {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"fim_sep", {"<|file_sep|>"}}};
  return all;
}
// Whether llama.cpp takes a text for a special token in a file in which has_key(key) says what keys there are.
template <class HasKey>
bool is_spelled_special(std::string_view text, const HasKey& has_key) {
  return std::ranges::any_of(special_spellings(), [&](const spelled_tokens& of) {
    return std::ranges::find(of.spellings, text) != of.spellings.end() &&
           (of.key == nullptr || !has_key(std::string("tokenizer.ggml.") + of.key + "_token_id"));
  });
}

enum token_type : std::int32_t { normal = 1, unknown, control, user_defined, unused, byte_token };

// The special tokens that both have: their names in tokenizer_config.json and config.json, and in GGUF.
struct special {
  const char *name, *gguf;
  std::size_t of_sentence_piece;  // its id for llama.cpp where a file does not say it; none is as large as the last
};
constexpr std::array specials{special{"bos", "bos", 1}, special{"eos", "eos", 2}, special{"unk", "unknown", 0},
                              special{"pad", "padding", ~std::size_t{0}}};
std::string id_key(const special& of) { return std::string("tokenizer.ggml.") + of.gguf + "_token_id"; }
// How text is generated by default: the names in generation_config.json, and in GGUF.
struct sampling_key {
  const char *name, *gguf;
  bool whole = false;
};
constexpr std::array sampling_keys{
    sampling_key{"temperature", "general.sampling.temp"}, sampling_key{"top_k", "general.sampling.top_k", true},
    sampling_key{"top_p", "general.sampling.top_p"}, sampling_key{"min_p", "general.sampling.min_p"},
    sampling_key{"repetition_penalty", "general.sampling.penalty_repeat"}};
// The ends of text besides eos.
constexpr std::array end_keys{"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
const std::string template_key = "tokenizer.chat_template", templates_key = "tokenizer.chat_templates";

// ---- What both directions need

// "<0x0A>"
std::string byte_name(unsigned byte) {
  constexpr const char* digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
}

using merge = std::pair<std::string, std::string>;

// The merges that llama.cpp makes of scores, the best first: each pair of tokens that is a token.
std::vector<merge> merges_of_scores(const std::vector<std::string>& tokens, const std::vector<float>& scores,
                                    const std::vector<std::int32_t>& types) {
  std::map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < tokens.size(); ++i) ids.emplace(tokens[i], i);
  struct scored {
    float score;
    std::size_t left, right;
  };
  std::vector<scored> all;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (types[i] != normal) continue;
    for (std::size_t cut = 1; cut < tokens[i].size(); ++cut) {
      const auto left = ids.find(std::string_view(tokens[i]).substr(0, cut)),
                 right = ids.find(std::string_view(tokens[i]).substr(cut));
      if (left != ids.end() && right != ids.end()) all.push_back({scores[i], left->second, right->second});
    }
  }
  std::ranges::stable_sort(all, [](const scored& a, const scored& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  std::vector<merge> merges;
  for (const scored& s : all) merges.emplace_back(tokens[s.left], tokens[s.right]);
  return merges;
}

// The texts that a key of a file holds.
const std::vector<std::string>& texts_of(const gr::gguf_file& from, const std::string& key) {
  const auto& all = from.list<std::string>(key);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (gr::unicode::count_broken(all[i]) > 0)
      throw gr::error(from.path().string() + ": '" + key + "': the text " + std::to_string(i) + " is not UTF-8");
  return all;
}

// The text that a key of a file holds.
std::string checked_text(const gr::gguf_file& from, const std::string& key) {
  const auto text = from.value<std::string>(key);
  if (gr::unicode::count_broken(text) > 0) throw gr::error(from.path().string() + ": '" + key + "' is not UTF-8");
  return text;
}

// ---- To GGUF

// A part of a tokenizer.json without what changes no token, and with its defaults.
json plain(json part) {
  if (!part.is_object()) return part;
  part.erase("trim_offsets");
  const json type = part.value("type", json());
  if (type == "ByteLevel")
    for (const char* key : {"add_prefix_space", "use_regex"})
      if (!part.contains(key)) part[key] = true;
  if (type == "Metaspace" && part.contains("add_prefix_space")) {
    if (!part.contains("prepend_scheme"))
      part["prepend_scheme"] = part["add_prefix_space"] == true ? "always" : "never";
    part.erase("add_prefix_space");
    part.erase("str_rep");
  }
  for (const char* key : {"pretokenizers", "normalizers"})
    if (part.contains(key) && part[key].is_array()) {
      for (json& inner : part[key]) inner = plain(inner);
      if (part[key].size() == 1) return part[key].front();
    }
  return part;
}
// The parts of a pre-tokenizer.
json parts_of(const json& pre_tokenizer) {
  const json plainly = plain(pre_tokenizer);
  return plainly.is_object() && plainly.contains("pretokenizers") ? plainly["pretokenizers"] : json::array({plainly});
}

struct tokenizer_files {
  std::string path;  // of tokenizer.json
  json tokenizer, settings, config;
  gr::text_settings said;  // by the files beside it
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::map<std::string, std::size_t, std::less<>> ids;

  tokenizer_files(const fs::path& folder, json of_config, std::size_t vocabulary)
      : path((folder / "tokenizer.json").string()),
        tokenizer(gr::parse_json(gr::read_text(path), path)),
        settings(json::object()),
        config(std::move(of_config)),
        said(gr::read_text_settings(folder)) {
    if (const fs::path file = folder / "tokenizer_config.json"; is_there(file))
      settings = gr::parse_json(gr::read_text(file), file.string());
    if (!tokenizer.is_object() || !settings.is_object()) fail("is not a JSON object");
    read_tokens(vocabulary);
  }
  [[noreturn]] void fail(const std::string& what) const { throw gr::error(path + ": " + what); }

  json part(const char* key) const { return tokenizer.value(key, json()); }
  json model(const char* key) const { return part("model").value(key, json()); }
  bool flag(const char* key) const { return model(key) == true; }

  // The id of a special token: that of its text in tokenizer_config.json, or the first in config.json.
  std::optional<std::size_t> id_of(const std::string& name) const {
    json text = settings.value(name + "_token", json());
    if (text.is_object()) text = text.value("content", json());
    for (const auto& [known, spelled] : {std::pair("bos", &said.begin), {"eos", &said.end}, {"pad", &said.pad}})
      if (name == known && *spelled) text = **spelled;
    if (text.is_null() && name == "unk") text = model("unk_token");
    if (text.is_string())
      if (const auto found = ids.find(text.get<std::string>()); found != ids.end()) return found->second;
    json id = config.value(name + "_token_id", json());
    if (name == "eos" && !said.end_ids.empty()) id = said.end_ids.front();
    if (id.is_number_integer() && id >= 0 && id < tokens.size()) return id.get<std::size_t>();
    return {};
  }
  // Whether a token is put before a text, or after it: as tokenizer_config.json says, or else the post-processor.
  bool adds(const std::string& name, bool before) const {
    if (said.adds_begin) return id_of(name) && settings.value("add_" + name + "_token", json()) == true;
    const json post = part("post_processor");
    json all = post.is_object() ? post.value("processors", json::array({post})) : json::array();
    for (const json& p : all) {
      const json single = p.is_object() ? p.value("single", json()) : json();
      if (!single.is_array() || single.empty()) continue;
      const json& end = before ? single.front() : single.back();
      if (!end.is_object() || !end.contains("SpecialToken")) continue;
      const auto id = id_of(name);
      if (id && end["SpecialToken"].value("id", json()) == tokens[*id]) return true;
      fail("'post_processor' puts " + end["SpecialToken"].value("id", json()).dump() + (before ? " before" : " after") +
           " a text, and that is not the " + name + "_token of tokenizer_config.json");
    }
    return false;
  }

 private:
  void check_added(const json& added) const;
  void read_tokens(std::size_t vocabulary) {
    if (!part("model").is_object() || !model("vocab").is_object()) fail("'model' has no object 'vocab'");
    tokens.resize(vocabulary);
    types.assign(vocabulary, unused);
    const auto put = [&](const std::string& text, const json& id, token_type type) {
      if (!id.is_number_unsigned() || id >= vocabulary)
        fail("'" + text + "' has the id " + id.dump() + ", and the model has " + std::to_string(vocabulary) +
             " tokens");
      if (const auto found = ids.find(text); found != ids.end() && found->second != id)
        fail("'" + text + "' has the ids " + std::to_string(found->second) + " and " + id.dump());
      tokens[id] = text;
      types[id] = type;
      ids[text] = id;
    };
    const json vocab = model("vocab");
    for (const auto& [text, id] : vocab.items()) put(text, id, normal);
    if (flag("byte_fallback"))
      for (unsigned b = 0; b < 256; ++b)
        if (const auto found = ids.find(byte_name(b)); found != ids.end()) types[found->second] = byte_token;
    for (const json& added : tokenizer.value("added_tokens", json::array())) {
      if (!added.is_object() || !added.value("content", json()).is_string()) fail("'added_tokens' has no 'content'");
      put(added["content"], added.value("id", json()), added.value("special", json()) == true ? control : user_defined);
      check_added(added);
    }
    for (std::size_t i = 0; i < vocabulary; ++i)
      if (types[i] == normal && is_spelled_special(tokens[i], [](const std::string&) { return false; }))
        fail("'" + tokens[i] + "' is not among the 'added_tokens', and llama.cpp takes it for a special token");
    // Only where a text's spelling of it is the token.
    if (const json unk = model("unk_token"); unk.is_string() && ids.contains(unk.get<std::string>()))
      if (std::int32_t& type = types[ids[unk.get<std::string>()]]; type != normal) type = unknown;
    for (std::size_t i = 0; i < vocabulary; ++i)  // rows of the table that no text has
      if (types[i] == unused) {
        tokens[i] = "[PAD" + std::to_string(i) + "]";
        while (ids.contains(tokens[i])) tokens[i] += "_";  // llama.cpp ends where two tokens have one text
      }
  }
};

// Refuses what llama.cpp cannot do with an added token: it looks for its text in what is not normalized yet.
void tokenizer_files::check_added(const json& added) const {
  const std::string text = added["content"];
  for (const char* key : {"lstrip", "rstrip", "single_word"})
    if (added.value(key, json()) == true) fail("'" + text + "' has " + key + ", which GGUF cannot express");
  if (added.value("normalized", json()) != true) return;
  const json normalizer = plain(part("normalizer"));
  const json type = normalizer.is_object() ? normalizer.value("type", json()) : json();
  const bool ascii = std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (normalizer.is_null() || (type == "NFC" && ascii) || (type == "Replace" && ascii && text.find(' ') == text.npos))
    return;
  fail("'" + text + "' is looked for in normalized text (normalized is true), which GGUF cannot express");
}

// Refuses a post-processor that puts more around a text than a token before and one after it.
void check_framing(const tokenizer_files& from) {
  const json post = from.part("post_processor");
  for (const json& p : post.is_object() ? post.value("processors", json::array({post})) : json::array()) {
    const json type = p.is_object() ? p.value("type", json()) : json();
    if (type == "ByteLevel") continue;
    if (type != "TemplateProcessing") from.fail("'post_processor': GGUF cannot express " + type.dump());
    const json single = p.value("single", json::array());
    std::size_t text = 0;
    while (text < single.size() && !single[text].contains("Sequence")) ++text;
    if (text > 1 || single.size() > text + 2)
      from.fail("'post_processor' puts more than one token before or after a text, which GGUF cannot express");
  }
}

std::vector<merge> read_merges(const tokenizer_files& from) {
  std::vector<merge> all;
  const json list = from.model("merges");
  if (!list.is_array()) from.fail("'model' has no list 'merges'");
  for (const json& m : list) {
    if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      all.emplace_back(m[0], m[1]);
      continue;
    }
    const std::string text = m.is_string() ? m.get<std::string>() : "";
    const auto blank = text.find(' ');
    if (blank == text.npos) from.fail("'merges': " + m.dump() + " is not a pair");
    all.emplace_back(text.substr(0, blank), text.substr(blank + 1));
  }
  return all;
}

void set_byte_level(gr::gguf_writer& to, const tokenizer_files& from) {
  const json normalizer = plain(from.part("normalizer")), parts = parts_of(from.part("pre_tokenizer"));
  const auto row = std::ranges::find_if(pre_tokenizers, [&](const pre_tokenizer& p) {
    return normalizer == json::parse(p.normalizer) && parts == json::parse(p.parts) &&
           from.flag("ignore_merges") == p.ignore_merges;
  });
  if (row == pre_tokenizers.end())
    from.fail("GGUF has no name that is known here for its 'pre_tokenizer', 'normalizer' and 'ignore_merges': " +
              from.part("pre_tokenizer").dump());
  to.set("tokenizer.ggml.model", "gpt2");
  to.set("tokenizer.ggml.pre", row->name);
  std::vector<std::string> merges;
  for (const auto& [left, right] : read_merges(from)) {
    if (left.find(' ') != left.npos || right.find(' ') != right.npos)
      from.fail("'merges': '" + left + "' and '" + right + "' have a blank, which GGUF cannot hold");
    merges.push_back(left + " " + right);
  }
  to.set("tokenizer.ggml.merges", std::move(merges));
}

void set_sentence_piece(gr::gguf_writer& to, const tokenizer_files& from) {
  const json normalizer = plain(from.part("normalizer")), pre = plain(from.part("pre_tokenizer"));
  const auto row = std::ranges::find_if(blank_rules, [&](const blanks& b) {
    return normalizer == json::parse(b.normalizer) && pre == json::parse(b.pre_tokenizer);
  });
  if (row == blank_rules.end())
    from.fail("GGUF cannot express its 'normalizer' and 'pre_tokenizer': " + from.part("normalizer").dump() + ", " +
              from.part("pre_tokenizer").dump());
  if (from.flag("ignore_merges")) from.fail("'ignore_merges' is true where false is needed");
  for (unsigned b = 0; b < 256; ++b)
    if (const auto found = from.ids.find(byte_name(b)); found == from.ids.end())
      from.fail("'byte_fallback' is true, and there is no token " + byte_name(b));
  // llama.cpp joins the two tokens first that make the token of the highest score.
  const std::vector<merge> merges = read_merges(from);
  std::vector<float> scores(from.tokens.size(), -1e6f);
  std::set<merge> made;
  float score = 0;
  for (const merge& m : merges) {
    const auto id = from.ids.find(m.first + m.second);
    if (id == from.ids.end()) from.fail("'merges': '" + m.first + m.second + "' is not a token");
    const bool first = scores[id->second] == -1e6f;
    if (first) scores[id->second] = score--;
    if (from.types[id->second] != normal) continue;
    made.insert(m);
    if (!first && scores[id->second] != score + 1)
      from.fail("its merges into '" + id->first + "' do not follow each other, as SentencePiece's do");
  }
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (from.types[i] != normal) scores[i] = 0;
  const std::vector<merge> implied = merges_of_scores(from.tokens, scores, from.types);
  if (made != std::set<merge>(implied.begin(), implied.end()))
    from.fail(
        "its merges are not all pairs of tokens that make a token, as SentencePiece's are; GGUF holds such alone");
  to.set("tokenizer.ggml.model", "llama");
  to.set("tokenizer.ggml.pre", "default");
  to.set("tokenizer.ggml.scores", std::move(scores));
  to.set("tokenizer.ggml.add_space_prefix", row->prefix);
}

// Sets the tokens at which text ends besides eos, which llama.cpp calls the ends of a turn and of a message.
void set_other_ends(gr::gguf_writer& to, const fs::path& folder, std::vector<std::int32_t> ends, std::size_t eos,
                    const std::vector<std::string>& tokens, std::size_t vocabulary) {
  std::erase_if(ends, [&](std::int32_t id) {
    const auto n = static_cast<std::size_t>(id);
    return n == eos || n >= vocabulary;
  });
  if (ends.size() > end_keys.size())
    throw gr::error(folder.string() + ": its text ends at " + std::to_string(ends.size() + 1) +
                    " tokens, and GGUF has keys for 3; leave the others out of eos_token_id in generation_config.json");
  const auto ends_message = [&](std::int32_t id) {
    return static_cast<std::size_t>(id) < tokens.size() && tokens[static_cast<std::size_t>(id)] == "<|eom_id|>";
  };
  std::ranges::stable_partition(ends, [&](std::int32_t id) { return !ends_message(id); });
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::size_t key = ends.size() == 1 && ends_message(ends[i]) ? 1 : i;
    to.set(end_keys[key], static_cast<std::uint32_t>(ends[i]));
  }
}

// Sets how text is generated by default, as generation_config.json says.
void set_sampling(gr::gguf_writer& to, const gr::text_settings& said) {
  const auto file = said.files.find("generation_config.json");
  if (file == said.files.end()) return;
  const json values = gr::parse_json(file->second, file->first);
  for (const sampling_key& k : sampling_keys) {
    const json value = values.value(k.name, json());
    if (!value.is_number()) continue;
    if (k.whole) to.set(k.gguf, value.get<std::int32_t>());
    else to.set(k.gguf, value.get<float>());
  }
}

}  // namespace

void set_gguf_tokenizer(gr::gguf_writer& to, const fs::path& folder, const json& config, std::size_t vocabulary) {
  const gr::text_settings said = gr::read_text_settings(folder);
  set_sampling(to, said);
  if (!is_there(folder / "tokenizer.json")) {
    to.set("tokenizer.ggml.model", "none");
    const std::vector<std::int32_t>& ends = said.end_ids;
    for (const special& s : specials) {
      json id = config.value(std::string(s.name) + "_token_id", json());
      if (s.name == std::string("eos") && !ends.empty()) id = ends.front();
      if (id.is_number_integer() && id >= 0) to.set(id_key(s), id.get<std::uint32_t>());
    }
    if (!ends.empty()) set_other_ends(to, folder, ends, static_cast<std::size_t>(ends.front()), {}, vocabulary);
    return;
  }
  const tokenizer_files from(folder, config, vocabulary);
  if (const json type = from.model("type"); type != "BPE" && !type.is_null())
    from.fail("'model' is " + type.dump() + " where BPE is needed: llama.cpp has no other for these models");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    if (const json found = from.model(key); !found.is_null() && found != "")
      from.fail("'" + std::string(key) + "' is " + found.dump() + " where null is needed");
  check_framing(from);
  if (from.flag("byte_fallback")) set_sentence_piece(to, from);
  else set_byte_level(to, from);
  to.set("tokenizer.ggml.tokens", from.tokens);
  to.set("tokenizer.ggml.token_type", from.types);
  for (const special& s : specials)
    if (const auto id = from.id_of(s.name)) to.set(id_key(s), static_cast<std::uint32_t>(*id));
  to.set("tokenizer.ggml.add_bos_token", from.adds("bos", true));
  to.set("tokenizer.ggml.add_eos_token", from.adds("eos", false));
  set_other_ends(to, folder, from.said.end_ids, from.id_of("eos").value_or(vocabulary), from.tokens, vocabulary);
  std::vector<std::string> names;
  for (const auto& [name, text] : from.said.chat_templates) {
    const bool is_default = name == "default";
    to.set(is_default ? template_key : template_key + "." + name, text.c_str());
    if (!is_default) names.push_back(name);
  }
  if (!names.empty()) to.set(templates_key, std::move(names));
}

// ---- From GGUF

json end_ids_of_gguf(const gr::gguf_file& from) {
  json ids = json::array();
  for (const std::string& key : {id_key(specials[1]), std::string(end_keys[0]), std::string(end_keys[1])})
    if (from.has_key(key))
      if (const json id = from.count(key); std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  return ids.size() > 1 ? ids : ids.empty() ? json() : ids.front();
}

static void write_generation_config_of_gguf(const gr::gguf_file& from, const fs::path& folder) {
  ordered_json settings;
  for (const auto& [name, of] : {std::pair("bos_token_id", specials[0]), {"pad_token_id", specials[3]}})
    if (const std::string k = id_key(of); from.has_key(k)) settings[name] = from.count(k);
  settings["eos_token_id"] = end_ids_of_gguf(from);
  ordered_json sampling;
  for (const sampling_key& k : sampling_keys) {
    if (!from.has_key(k.gguf)) continue;
    if (k.whole) sampling[k.name] = from.count(k.gguf);
    else sampling[k.name] = shortest(static_cast<float>(from.number(k.gguf)));
  }
  if (sampling.contains("temperature")) sampling["do_sample"] = sampling["temperature"] > 0;
  write_generation_config(folder, settings, sampling);
}

void write_tokenizer_of_gguf(const gr::gguf_file& from, std::size_t context, const fs::path& folder) {
  write_generation_config_of_gguf(from, folder);
  const auto fail = [&](const std::string& what) {
    throw gr::error(from.path().string() + ": " + gr::printable(what));
  };
  const auto key = [](const std::string& name) { return "tokenizer.ggml." + name; };
  const std::string kind = from.value<std::string>(key("model"), "none");
  if (kind == "none" || kind == "no_vocab") return;
  if (kind != "gpt2" && kind != "llama") fail("'tokenizer.ggml.model' is " + kind + " where gpt2 or llama is needed");
  const auto& tokens = texts_of(from, key("tokens"));
  auto types = from.list<std::int32_t>(key("token_type"));
  if (types.size() != tokens.size())
    fail("has " + std::to_string(types.size()) + " types of tokens for " + std::to_string(tokens.size()) + " tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if ((types[i] == normal || types[i] == unused) &&
        is_spelled_special(tokens[i], [&](const std::string& k) { return from.has_key(k); }))
      types[i] = control;
  json vocabulary = json::object();
  ordered_json added = ordered_json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (types[i] == unused) continue;
    if (!vocabulary.emplace(tokens[i], i).second) fail("the token '" + tokens[i] + "' occurs twice");
    if (types[i] != normal && types[i] != byte_token)
      added.push_back({{"id", i},
                       {"content", tokens[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", types[i] != user_defined}});
  }
  const auto special_id = [&](const special& s) -> std::optional<std::size_t> {
    const std::string k = id_key(s);
    if (!from.has_key(k) && (kind != "llama" || s.of_sentence_piece >= tokens.size())) return {};
    const std::size_t id = from.count(k, s.of_sentence_piece);
    if (id >= tokens.size()) fail("'" + k + "' is not a token");
    return id;
  };
  ordered_json model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"fuse_unk", kind == "llama"},
                     {"byte_fallback", kind == "llama"},
                     {"ignore_merges", false}};
  json normalizer, pre, merges = json::array();
  ordered_json decoder;
  bool adds_begin = kind == "llama";
  if (kind == "gpt2") {
    const auto name = from.value<std::string>(key("pre"), "default");
    const auto row = std::ranges::find_if(pre_tokenizers, [&](const pre_tokenizer& p) { return name == p.name; });
    if (row == pre_tokenizers.end()) fail("'tokenizer.ggml.pre' is " + name + ", whose rules are not known here");
    normalizer = json::parse(row->normalizer);
    json parts = json::parse(row->parts);
    parts.back()["trim_offsets"] = true;  // a ByteLevel must say it
    pre = parts.size() == 1 ? parts.front() : json{{"type", "Sequence"}, {"pretokenizers", parts}};
    model["ignore_merges"] = row->ignore_merges;
    adds_begin = row->adds_begin;
    for (const std::string& m : texts_of(from, key("merges"))) {
      const auto blank = m.find(' ', 1);
      if (blank == m.npos) fail("'tokenizer.ggml.merges': '" + m + "' is not a pair");
      merges.push_back({m.substr(0, blank), m.substr(blank + 1)});
    }
    decoder = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  } else {
    const auto& scores = from.list<float>(key("scores"));
    if (scores.size() != tokens.size())
      fail("has " + std::to_string(scores.size()) + " scores for " + std::to_string(tokens.size()) + " tokens");
    if (std::ranges::any_of(scores, [](float s) { return std::isnan(s); })) fail("'tokenizer.ggml.scores' has a NaN");
    const bool prefix = from.value<bool>(key("add_space_prefix"), true);
    const auto row = std::ranges::find(blank_rules, prefix, &blanks::prefix);
    normalizer = json::parse(row->normalizer);
    pre = json::parse(row->pre_tokenizer);
    for (const auto& [left, right] : merges_of_scores(tokens, scores, types)) merges.push_back({left, right});
    if (const auto id = special_id(specials[2])) model["unk_token"] = tokens[*id];
    ordered_json steps{{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}}};
    if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    decoder = {{"type", "Sequence"}, {"decoders", steps}};
  }
  model["vocab"] = std::move(vocabulary);
  model["merges"] = std::move(merges);
  ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false},
                        {"model_max_length", context}};
  for (const special& s : specials)
    if (const auto id = special_id(s)) settings[std::string(s.name) + "_token"] = tokens[*id];
  std::map<std::string, std::string> templates;
  if (from.has_key(template_key)) templates["default"] = checked_text(from, template_key);
  if (from.has_key(templates_key))
    for (const std::string& name : texts_of(from, templates_key))
      if (const std::string k = template_key + "." + name; from.has_key(k)) templates[name] = checked_text(from, k);
  if (templates.size() == 1 && templates.contains("default")) settings["chat_template"] = templates["default"];
  else
    for (const auto& [name, text] : templates)
      settings["chat_template"].push_back({{"name", name}, {"template", text}});

  // What is put around a text.
  ordered_json post, single = ordered_json::array(), used = ordered_json::object();
  const auto add = [&](const special& s, const char* flag, bool otherwise) {
    const auto id = special_id(s);
    if (!from.value<bool>(key(flag), otherwise)) return;
    if (!id) fail("puts a token around each text, and has no '" + id_key(s) + "'");
    single.push_back({{"SpecialToken", {{"id", tokens[*id]}, {"type_id", 0}}}});
    used[tokens[*id]] = {{"id", tokens[*id]}, {"ids", {*id}}, {"tokens", {tokens[*id]}}};
  };
  add(specials[0], "add_bos_token", adds_begin);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(specials[1], "add_eos_token", false);
  if (single.size() > 1) {
    ordered_json pair = single;
    for (ordered_json part : single) {
      (part.contains("Sequence") ? part["Sequence"] : part["SpecialToken"])["type_id"] = 1;
      if (part.contains("Sequence")) part["Sequence"]["id"] = "B";
      pair.push_back(part);
    }
    post = {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", used}};
  }
  const ordered_json tokenizer{{"version", "1.0"},       {"truncation", nullptr},    {"padding", nullptr},
                               {"added_tokens", added},  {"normalizer", normalizer}, {"pre_tokenizer", pre},
                               {"post_processor", post}, {"decoder", decoder},       {"model", model}};
  gr::write_file_atomically(folder / "tokenizer.json", tokenizer.dump(1) + "\n");
  gr::write_file_atomically(folder / "tokenizer_config.json", settings.dump(2) + "\n");
}

}  // namespace gpt
