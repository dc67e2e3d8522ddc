// Models as llama.cpp's GGUF files, both ways. tests/parity/make_gguf_fixtures.py made llama.gguf with the package gguf
// from the folder beside it; tests/parity/compare_gguf.py has llama.cpp and transformers run what is written.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "gpt/tools/huggingface.hpp"
#include "llama/huggingface.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using gradus_test::message_of, gradus_test::scratch_folder;

namespace {

const fs::path data = GRADUS_TEST_DATA, recorded = data / "gguf" / "llama.gguf", tied = data / "llama" / "tied",
               gpt2 = data / "gpt2";
constexpr llama::config sizes{
    .layers = 2, .heads = 4, .width = 64, .context = 31, .vocabulary = 67, .kv_heads = 2, .hidden = 96, .tied = 1};
constexpr gpt::config gpt2_sizes{2, 3, 21, 13, 61};

template <class Net>
struct loaded {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  Net net;
  explicit loaded(const fs::path& from) { load_huggingface(net, ctx, from); }
};
using llama_model = loaded<llama::model<gr::on<gr::cpu>, sizes>>;
using gpt2_model = loaded<gpt::model<gr::on<gr::cpu>, gpt2_sizes>>;

// Whether two models have the same bits.
template <class Net>
bool same(const Net& a, const Net& b) {
  std::vector<float> of_a, of_b;
  for (auto [net, to] : {std::pair{&a, &of_a}, {&b, &of_b}})
    gr::for_each_param(*net, [&, to = to](std::string_view, const auto& p) {
      const auto values = p.value().values();
      to->insert(to->end(), values.begin(), values.end());
    });
  return of_a == of_b;
}

// A folder with a config.json and a tokenizer.json in which `from` is `to`.
struct changed_folder {
  scratch_folder place;
  explicit changed_folder(const fs::path& model, const std::string& from = "", const std::string& to = "") {
    fs::copy(model, place.path, fs::copy_options::recursive);
    change("config.json", from, to);
  }
  void change(const std::string& name, const std::string& from, const std::string& to) {
    std::string text = gr::read_text(place.path / name);
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    std::ofstream(place.path / name) << text.replace(at, from.size(), to);
  }
  // What is said of the folder behind the name of one of its files.
  std::string refusal(const std::string& type = "f32") const {
    const std::string said = message_of([&] { gpt::write_gguf(place.path, place.path / "x.gguf", type); });
    CHECK_FALSE(fs::exists(place.path / "x.gguf"));
    const std::string folder = place.path.string() + "/";
    return said.starts_with(folder) ? said.substr(folder.size()) : said;
  }
};

}  // namespace

TEST_CASE("a Llama in a GGUF file of the package gguf is the one in the folder that it was made of") {
  const llama_model of_folder(tied), of_file(recorded);
  CHECK(same(of_folder.net, of_file.net));
  std::vector<double> a, b;
  of_folder.net.for_each_setting(of_folder.net, [&](const char*, double x) { a.push_back(x); });
  of_file.net.for_each_setting(of_file.net, [&](const char*, double x) { b.push_back(x); });
  CHECK(a == b);
}

TEST_CASE("a GGUF file that is written has the tensors and metadata of the one that the package gguf writes") {
  const scratch_folder place;
  gpt::write_gguf(tied, place.path / "x.gguf", "bf16");
  const gr::gguf_file wanted(recorded), found(place.path / "x.gguf");
  for (const auto& item : wanted.metadata()) {
    CAPTURE(item.first);
    REQUIRE(found.has_key(item.first));
    CHECK((found.metadata().find(item.first)->second == item.second));
  }
  CHECK(found.entries().size() == wanted.entries().size());
  for (const auto& item : wanted.entries()) {
    CAPTURE(item.first);
    const gr::gguf_entry& e = found.entry(item.first);
    CHECK(e.dtype == item.second.dtype);
    CHECK(e.shape == item.second.shape);
    const auto a = found.read_as<float>(item.first, e.shape), b = wanted.read_as<float>(item.first, e.shape);
    CHECK(std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) <= 1e-6f * std::abs(y); }));
  }
}

TEST_CASE("a GGUF file says its name, unless llama.cpp would take it for a Phi-3 and strip blanks") {
  const scratch_folder place;
  for (const auto& [file, named] : {std::pair("mine.gguf", true), {"My-Phi-3.gguf", false}, {"phi3.gguf", false}}) {
    gpt::write_gguf(tied, place.path / file, "bf16");
    CHECK(gr::gguf_file(place.path / file).has_key("general.name") == named);
  }
}

TEST_CASE("models come back from GGUF files as they were, and from files of 16 bits and fewer nearly") {
  const scratch_folder place;
  const gpt2_model model(gpt2);
  for (const std::string type : {"f32", "f16", "bf16", "q8_0"}) {
    CAPTURE(type);
    const fs::path file = place.path / (type + ".gguf"), folder = place.path / type;
    gpt::write_gguf(gpt2, file, type);
    fs::create_directories(folder);
    gpt::write_folder_of_gguf(file, folder, 3000);
    CHECK(fs::exists(folder / "model.safetensors.index.json"));
    CHECK_FALSE(fs::exists(folder / "model.safetensors"));
    CHECK(gr::read_text(folder / "generation_config.json").find("\"eos_token_id\": 60") != std::string::npos);
    const gpt2_model of_file(file), of_folder(folder);
    CHECK(same(of_file.net, of_folder.net));
    CHECK(same(of_file.net, model.net) == (type == "f32"));
    // Rows of 21 values are no whole blocks of Q8_0.
    CHECK(gr::gguf_file(file).entry("token_embd.weight").dtype == (type == "f32"    ? "F32"
                                                                   : type == "bf16" ? "BF16"
                                                                                    : "F16"));
    CHECK(gr::gguf_file(file).entry("position_embd.weight").dtype == "F32");
  }
}

TEST_CASE("a model that is written as several files is read as one file's") {
  const scratch_folder place;
  const llama_model model(tied);
  save_huggingface(model.net, place.path, nullptr, 20000);
  CHECK_FALSE(fs::exists(place.path / "model.safetensors"));
  CHECK(same(llama_model(place.path).net, model.net));
}

TEST_CASE("byte-level tokenizers come back from GGUF files as they were") {
  for (const char* name : {"tokenizer.json", "llama3.json"}) {
    CAPTURE(name);
    const scratch_folder place;
    const fs::path file = place.path / "x.gguf", back = place.path / "back";
    fs::create_directories(back);
    fs::copy(data / "tokenizer" / name, place.path / "tokenizer.json");
    const bool llama3 = name == std::string("llama3.json");
    std::ofstream(place.path / "tokenizer_config.json")
        << (llama3 ? R"({"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"}})"
                   : R"({"eos_token": "<|endoftext|>", "chat_template": "{{ messages }}"})");
    gr::gguf_writer writer;
    gpt::set_gguf_tokenizer(writer, place.path, nlohmann::json::parse(R"({"pad_token_id": 3})"), 704);
    writer.write(file);
    const gr::gguf_file found(file);
    CHECK(found.value<std::string>("tokenizer.ggml.pre") == (llama3 ? "llama-bpe" : "gpt-2"));
    CHECK(found.value<bool>("tokenizer.ggml.add_bos_token") == llama3);
    const gr::tokenizer before = gr::read_tokenizer_json(place.path / "tokenizer.json");
    CHECK(found.number("tokenizer.ggml.eos_token_id") == *before.id_of(llama3 ? "<|eot_id|>" : "<|endoftext|>"));
    CHECK(found.number("tokenizer.ggml.padding_token_id") == 3);
    CHECK(found.has_key("tokenizer.chat_template") == !llama3);
    CHECK(found.list<std::string>("tokenizer.ggml.tokens").back() == "[PAD703]");
    gpt::write_tokenizer_of_gguf(found, 64, back);
    const gr::tokenizer after = gr::read_tokenizer_json(back / "tokenizer.json");
    const std::string text = gr::read_text(data / "tokenizer" / "train.txt");
    CHECK(after.input(text).ids == before.input(text).ids);
    CHECK(after.input(text, text).ids == before.input(text, text).ids);
    CHECK(after.decode(after.input(text).ids) == before.decode(after.input(text).ids));
    CHECK(after.parts().added_tokens == before.parts().added_tokens);
    CHECK((gr::read_text(back / "tokenizer_config.json").find("{{ messages }}") != std::string::npos) == !llama3);
  }
}

TEST_CASE("the ends of texts, chat templates and defaults of generation come back from GGUF files") {
  const scratch_folder place;
  const auto write = [&](const std::string& generation, const std::string& config = "{}") {
    fs::copy_file(data / "tokenizer" / "llama3.json", place.path / "tokenizer.json",
                  fs::copy_options::overwrite_existing);
    std::ofstream(place.path / "tokenizer_config.json")
        << R"({"bos_token": "<|begin_of_text|>", "eos_token": "!", "chat_template": "old"})";
    std::ofstream(place.path / "chat_template.jinja") << "{{ messages }}";
    std::ofstream(place.path / "config.json") << config;
    fs::create_directories(place.path / "additional_chat_templates");
    std::ofstream(place.path / "additional_chat_templates" / "tool.jinja") << "{{ tools }}";
    std::ofstream(place.path / "generation_config.json") << generation;
    gr::gguf_writer writer;
    gpt::set_gguf_tokenizer(writer, place.path, nlohmann::json::parse(config), 800);
    writer.write(place.path / "x.gguf");
    return gr::gguf_file(place.path / "x.gguf");
  };
  const gr::gguf_file found = write(
      R"({"eos_token_id": [9, 7], "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1,
          "repetition_penalty": 1.05})");
  const gr::tokenizer words = gr::read_tokenizer_json(place.path / "tokenizer.json");
  const auto id_of = [&](const char* text) { return static_cast<std::size_t>(*words.id_of(text)); };
  const std::size_t end = id_of("!");
  CHECK(found.number("tokenizer.ggml.eos_token_id") == end);
  CHECK(found.number("tokenizer.ggml.eot_token_id") == 9);
  CHECK(found.number("tokenizer.ggml.eom_token_id") == 7);
  CHECK(found.value<std::string>("tokenizer.chat_template") == "{{ messages }}");
  CHECK(found.list<std::string>("tokenizer.chat_templates") == std::vector<std::string>{"tool"});
  CHECK(found.value<std::string>("tokenizer.chat_template.tool") == "{{ tools }}");
  CHECK(found.value<float>("general.sampling.temp") == 0.6f);
  const fs::path back = place.path / "back";
  fs::create_directories(back);
  gpt::write_tokenizer_of_gguf(found, 64, back);
  CHECK(nlohmann::json::parse(gr::read_text(back / "generation_config.json")) ==
        nlohmann::json{{"bos_token_id", id_of("<|begin_of_text|>")},
                       {"eos_token_id", {end, 9, 7}},
                       {"do_sample", true},
                       {"temperature", 0.6},
                       {"top_k", 20},
                       {"top_p", 0.95},
                       {"min_p", 0.1},
                       {"repetition_penalty", 1.05}});
  CHECK(gr::read_text_settings(back).chat_templates ==
        std::map<std::string, std::string>{{"default", "{{ messages }}"}, {"tool", "{{ tools }}"}});
  // One more end is of a turn; GGUF has keys for three.
  CHECK_FALSE(write(R"({"eos_token_id": [9]})").has_key("tokenizer.ggml.eom_token_id"));
  CHECK(write("{}", R"({"eos_token_id": [7, 9]})").number("tokenizer.ggml.eot_token_id") == 7);
  CHECK_THROWS_WITH_AS(write(R"({"eos_token_id": [9, 7, 8]})"),
                       doctest::Contains("its text ends at 4 tokens, and GGUF has keys for 3"), gr::error);
}

TEST_CASE("the merges of a SentencePiece tokenizer are scores in a GGUF file") {
  const scratch_folder place;
  std::string bytes;
  for (std::size_t b = 0, id = 8; b < 256; ++b) {
    const char* digits = "0123456789ABCDEF";
    if (b != 10) bytes += std::string(", \"<0x") + digits[b / 16] + digits[b % 16] + ">\": " + std::to_string(id++);
  }
  const std::string text = R"({"added_tokens": [{"id": 0, "content": "<unk>", "single_word": false, "lstrip": false,
      "rstrip": false, "normalized": false, "special": true}],
      "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "<0x0A>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "ab": 6, "▁ab": 7)" +
                           bytes + R"(},
      "merges": ["a b", "▁ a", "▁ ab", "▁a b"]}, "pre_tokenizer": null, "post_processor": null,
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}})";
  const auto write = [&](const std::string& tokenizer) {
    std::ofstream(place.path / "tokenizer.json") << tokenizer;
    gr::gguf_writer writer;
    gpt::set_gguf_tokenizer(writer, place.path, nlohmann::json::object(), 264);
    writer.write(place.path / "x.gguf");
  };
  write(text);
  const gr::gguf_file found(place.path / "x.gguf");
  CHECK(found.value<std::string>("tokenizer.ggml.model") == "llama");
  CHECK(found.value<bool>("tokenizer.ggml.add_space_prefix"));
  std::vector<std::int32_t> types{2, 6, 1, 1, 1, 1, 1, 1};
  types.resize(263, 6);
  types.push_back(5);
  CHECK(found.list<std::int32_t>("tokenizer.ggml.token_type") == types);
  const auto& scores = found.list<float>("tokenizer.ggml.scores");
  CHECK(scores[6] > scores[5]);
  CHECK(scores[5] > scores[7]);
  CHECK(scores[7] > scores[3]);
  const fs::path back = place.path / "back";
  fs::create_directories(back);
  gpt::write_tokenizer_of_gguf(found, 64, back);
  const auto read = gr::parse_json(gr::read_text(back / "tokenizer.json"), "back"), wanted = gr::parse_json(text, "");
  CHECK(read["model"]["vocab"] == wanted["model"]["vocab"]);
  CHECK(read["normalizer"] == wanted["normalizer"]);
  CHECK(read["model"]["merges"].dump() == R"([["a","b"],["▁","a"],["▁","ab"],["▁a","b"]])");
  const std::string less = R"(, "▁a b")";
  CHECK(message_of([&] { write(std::string(text).erase(text.find(less), less.size())); })
            .ends_with("its merges are not all pairs of tokens that make a token, as SentencePiece's are; GGUF holds "
                       "such alone"));
}

TEST_CASE("a folder that llama.cpp would compute otherwise is refused in one line") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return changed_folder(tied, from, to).refusal();
  };
  CHECK(refusal("\"llama\"", "\"bert\"") ==
        "config.json: 'model_type' is \"bert\", and GGUF is written for gpt2, llama, mistral, qwen2, qwen3, gemma, "
        "gemma2, gemma3_text");
  CHECK(refusal("\"silu\"", "\"gelu\"") == "config.json: 'hidden_act' is \"gelu\" where \"silu\" is needed");
  CHECK(refusal("\"mlp_bias\": false", "\"mlp_bias\": true") ==
        "config.json: 'mlp_bias' is true where false is needed");
  CHECK(refusal("\"mlp_bias\"", "\"query_scale\"") ==
        "config.json: 'query_scale', which is false, is not known, and could change what is computed");
  CHECK(refusal("\"llama3\"", "\"dynamic\"") ==
        "config.json: 'rope_parameters': 'rope_type' is \"dynamic\" where \"default\", \"linear\", \"llama3\" or "
        "\"yarn\" is needed");
  CHECK(refusal("\"factor\": 4.0", "\"factor\": \"4\"") ==
        "config.json: 'rope_parameters': 'factor' is \"4\" where a number is needed");
  CHECK(refusal("\"num_attention_heads\": 4", "\"num_attention_heads\": 0") ==
        "config.json: 'num_attention_heads' is 0 where a whole number from 1 on is needed");
  CHECK(refusal("\"num_attention_heads\": 4", "\"num_attention_heads\": 6") ==
        "model.safetensors: 'model.layers.0.self_attn.q_proj.weight' has 64 rows, which are not those of 6 heads");
}

TEST_CASE("a tokenizer that GGUF cannot express is refused in one line") {
  const auto refusal = [](const std::string& from, const std::string& to) {
    changed_folder folder(gpt2, "61", "1000");
    fs::copy(data / "tokenizer" / "tokenizer.json", folder.place.path);
    folder.change("tokenizer.json", from, to);
    return folder.refusal();
  };
  CHECK(refusal("\"BPE\"", "\"Unigram\"") ==
        "tokenizer.json: 'model' is \"Unigram\" where BPE is needed: llama.cpp has no other for these models");
  CHECK(refusal("\"dropout\": null", "\"dropout\": 0.1") == "tokenizer.json: 'dropout' is 0.1 where null is needed");
  CHECK(refusal("\"add_prefix_space\": false", "\"add_prefix_space\": true")
            .starts_with("tokenizer.json: GGUF has no name that is known here for its 'pre_tokenizer', "));
  CHECK(refusal("\"id\": 0", "\"id\": 1000") ==
        "tokenizer.json: '<|endoftext|>' has the id 1000, and the model has 1000 tokens");
}

TEST_CASE("a GGUF file of an unknown architecture or setting is refused in one line") {
  const scratch_folder place;
  const fs::path path = place.path / "x.gguf";
  const gr::gguf_file from(recorded);
  const auto refusal = [&](const std::string& key, const gr::gguf_value& value, const std::string& tensor = "odd") {
    gr::gguf_writer writer;
    for (const auto& [k, v] : from.metadata())
      if (k != key) writer.set(k, v);
    writer.set(key, value);
    for (const auto& [name, e] : from.entries())
      writer.add(name == "output_norm.weight" && tensor != "odd" ? tensor : name, "F32", e.shape,
                 [&from, n = name, s = e.shape] { return from.read_as<float>(n, s); });
    writer.write(path);
    const std::string said = message_of([&] { gpt::gguf_config(gpt::gguf_tensors(path)); });
    return said.substr(std::min(said.size(), path.string().size() + 2));
  };
  CHECK(
      refusal("general.architecture", std::string("mamba")) ==
      "'general.architecture' is mamba, and those that are read are gpt2, llama, qwen2, qwen3, gemma, gemma2, gemma3");
  CHECK(refusal("llama.expert_count", 8u) ==
        "'llama.expert_count' is a setting that is not known, and might change what the model computes");
  CHECK(refusal("llama.rope.scaling.type", std::string("ntk")) ==
        "'llama.rope.scaling.type' is ntk where none, linear or yarn is needed");
  CHECK(refusal("llama.rope.freq_base", 777.0f) ==
        "'rope_freqs.weight' is not what Llama 3's scaling of rotary positions gives");
  CHECK(refusal("llama.block_count", std::string("2")) ==
        "has a value of another type than is needed for 'llama.block_count'");
  CHECK(refusal("x", 1u, "blk.0.attn_sinks.weight") ==
        "'blk.0.attn_sinks.weight' is not a tensor of the architecture llama");
}

TEST_CASE("a GGUF file whose numbers or shapes no model has is refused in one line, before memory is taken for them") {
  const scratch_folder place;
  const fs::path path = place.path / "x.gguf";
  using value = gr::gguf_value;
  // Gemma 2 with windows, whose blocks are listed; of a block it has what `more` adds.
  const auto refusal = [&](std::map<std::string, value> keys,
                           const std::map<std::string, std::vector<std::size_t>>& more, const char* of = "gemma2") {
    gr::gguf_writer writer;
    writer.set("general.architecture", of);
    for (const auto& [key, other] : {std::pair<const char*, value>("block_count", 0u),
                                     {"attention.head_count", 1u},
                                     {"embedding_length", 2u},
                                     {"feed_forward_length", 8u},
                                     {"context_length", 8u},
                                     {"attention.layer_norm_rms_epsilon", 1e-5f},
                                     {"attention.layer_norm_epsilon", 1e-5f},
                                     {"attention.key_length", 2u},
                                     {"attention.sliding_window", 4u}})
      if (const std::string name = key; (std::string(of) == "gpt2") == (name == "attention.layer_norm_epsilon") ||
                                        name.find('.') == name.npos || name == "attention.head_count")
        if (std::string(of) != "llama" || name != "attention.sliding_window") keys.try_emplace(name, other);
    for (const auto& [key, v] : keys) writer.set(of + ("." + key), v);
    std::map<std::string, std::vector<std::size_t>> tensors{{"token_embd.weight", {4, 2}}};
    for (const auto& [name, shape] : more) tensors[name] = shape;
    for (const auto& item : tensors)
      writer.add(item.first, "F32", item.second, [shape = item.second] {
        std::size_t count = 1;
        for (const std::size_t n : shape) count *= n;
        return std::vector<float>(count, 3.0f);
      });
    writer.write(path);
    fs::create_directories(place.path / "folder");
    const std::string said = message_of([&] { gpt::write_folder_of_gguf(path, place.path / "folder", 1000); });
    return said.starts_with(path.string()) ? said.substr(path.string().size() + 2) : said;
  };
  CHECK(refusal({}, {}) == "nothing was thrown");
  CHECK(refusal({{"block_count", 4294967295u}}, {}) ==
        "'gemma2.block_count' is 4294967295, and there are tensors of 0 blocks");
  CHECK(refusal({{"block_count", 2u}}, {{"blk.0.attn_norm.weight", {2}}}) ==
        "'gemma2.block_count' is 2, and there are tensors of 1 blocks");
  for (const char* of : {"gpt2", "gemma2", "llama"})
    CHECK(refusal({}, {{"token_embd.weight", {}}}, of) ==
          "'token_embd.weight' has 0 dimensions where 1 or 2 are needed");
  CHECK(refusal({{"block_count", 1u}}, {{"blk.0.attn_q.weight", {}}}, "llama") ==
        "'blk.0.attn_q.weight' has 0 dimensions where 1 or 2 are needed");
  CHECK(refusal({{"block_count", 1u}}, {{"blk.0.attn_q.weight", {1, 2, 2}}}, "llama") ==
        "'blk.0.attn_q.weight' has 3 dimensions where 1 or 2 are needed");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const value& wrong : {value(nan), value(-1), value(1e300), value(0.5), value(~std::uint64_t{0})})
    for (const char* key : {"block_count", "attention.head_count", "attention.head_count_kv", "embedding_length"}) {
      std::map<std::string, value> keys{{key, wrong}};
      keys.try_emplace("block_count", 1u);
      CHECK(refusal(keys, {{"blk.0.attn_k.weight", {2, 2}}}, "llama") ==
            std::string("'llama.") + key + "' is not a whole number below 2^32");
    }
  CHECK(refusal({{"attention.head_count", 0u}}, {}) == "'gemma2.attention.head_count' is 0");
  for (const value& wrong : {value(nan), value(1e300), value(std::numeric_limits<float>::infinity())})
    CHECK(refusal({{"rope.freq_base", wrong}}, {}) == "'gemma2.rope.freq_base' is not a finite number");
  for (const float base : {-1.0f, 0.0f, 1e-30f})
    CHECK(refusal({{"rope.freq_base", base}}, {{"rope_freqs.weight", {1}}}, "llama") ==
          "'rope_freqs.weight' is not what Llama 3's scaling of rotary positions gives");
}
