#include "models.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <gradus/train/program.hpp>

#include "readers.hpp"

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;
using gr::bad_flag;

constexpr std::array presets{preset{"tiny", 4, 4, 128, 128, 256, 16, "3e-3", 400},
                             preset{"nano", 6, 6, 384, 256, 256, 12, "1e-3", 400},
                             preset{"seed", 4, 4, 256, 512, 50257, 8, "1e-3", 300},
                             preset{"gpt2", 12, 12, 768, 1024, 50257, 8, "6e-4", 0},
                             preset{"gpt2-medium", 24, 16, 1024, 1024, 50257, 8, "3e-4", 0},
                             preset{"llama-tiny", 4, 4, 128, 128, 256, 16, "3e-3", 400, 2, 384, 1},
                             preset{"llama-15m", 6, 6, 288, 256, 32000, 8, "1e-3", 300, 6, 768, 1},      // of llama2.c
                             preset{"llama-1b", 16, 32, 2048, 2048, 128256, 1, "3e-4", 0, 8, 8192, 1}};  // Llama 3.2 1B

using size_pairs = std::vector<std::pair<std::string, std::string>>;

size_pairs huggingface_sizes(const fs::path& file, const std::string& named, gpt::command_line& line) {
  const auto fail = [&](const std::string& what) { throw bad_flag(named + ": " + file.string() + ": " + what); };
  facts values;
  try {
    values = read_json_object(file);
  } catch (const gr::error& e) { throw bad_flag(named + ": " + e.what()); }
  const std::string type = value_of(values, "model_type");
  size_pairs all{{"architecture", type}};
  const auto add = [&](const char* name, const char* key) { all.emplace_back(name, value_of(values, key)); };
  add("vocabulary", "vocab_size");
  if (type == "gpt2") {
    add("layers", "n_layer");
    add("heads", "n_head");
    add("width", "n_embd");
    add("context", "n_positions");
  } else if (type == "llama") {
    add("layers", "num_hidden_layers");
    add("heads", "num_attention_heads");
    add("width", "hidden_size");
    add("hidden", "intermediate_size");
    add("kv-heads", value_of(values, "num_key_value_heads").empty() ? "num_attention_heads" : "num_key_value_heads");
    all.emplace_back("tied", value_of(values, "tie_word_embeddings") == "1" ? "1" : "0");
    const std::string said = value_of(values, "max_position_embeddings");
    const auto longest = gr::parse_number<int>(said.empty() ? "2048" : said);
    if (!longest || *longest < 1) fail("its max_position_embeddings is '" + said + "'");
    if (line.o.context > *longest)
      throw bad_flag("--context " + std::to_string(line.o.context) + ": the model of " + named + ", " +
                     file.parent_path().string() + ", has " + std::to_string(*longest));
    if (line.o.context == 0) line.flags.set("context", std::to_string(std::min(*longest, 1024)));
  } else {
    fail("is not of a GPT-2 or a Llama: its model_type must be \"gpt2\" or \"llama\"");
  }
  return all;
}

size_pairs file_sizes(const fs::path& file, const std::string& named) {
  try {
    size_pairs all;
    for (const auto& [name, value] : read_metadata(file)) {
      if (name == "model" && value.starts_with("gradus "))
        all.emplace_back("architecture", value == "gradus gpt" ? "gpt2" : value.substr(7));
      const auto known = sizes_of("llama");
      if (std::ranges::find(known, name) != known.end() || name == "experts" || name == "experts-per-token")
        all.emplace_back(name, value);
    }
    return all;
  } catch (const gr::error& e) { throw bad_flag(named + ": " + e.what()); }
}

std::string now(const gpt::options& o, const std::string& name) {
  const auto number = [](int n) { return n > 0 ? std::to_string(n) : std::string(); };
  if (name == "architecture") return o.architecture;
  if (name == "layers") return number(o.layers);
  if (name == "heads") return number(o.heads);
  if (name == "width") return number(o.width);
  if (name == "context") return number(o.context);
  if (name == "vocabulary") return number(o.vocabulary);
  if (name == "batch") return number(o.batch);
  if (name == "kv-heads") return number(o.kv_heads);
  if (name == "hidden") return number(o.hidden);
  if (name == "experts") return number(o.experts);
  if (name == "experts-per-token") return number(o.experts_per_token);
  return o.tied;
}

}  // namespace

const preset& find_preset(const std::string& name) {
  const auto found = std::ranges::find(presets, name, [](const preset& p) { return std::string(p.name); });
  if (found == presets.end()) throw bad_flag("--model: there is no '" + name + "'");
  return *found;
}

std::vector<std::string> sizes_of(const std::string& architecture) {
  std::vector<std::string> all{"layers", "heads", "width", "context", "vocabulary"};
  if (architecture == "llama") all.insert(all.end(), {"kv-heads", "hidden", "tied"});
  return all;
}

fs::path model_of_run(const fs::path& run) {
  std::error_code problem;
  // The model of a run that ended and was resumed is not its last one.
  const auto written = [&](const char* name) { return fs::last_write_time(run / name, problem); };
  const bool older = fs::exists(run / "model.safetensors", problem) &&
                     fs::exists(run / "checkpoint.safetensors", problem) &&
                     written("checkpoint.safetensors") > written("model.safetensors");
  for (const char* name : {"model.safetensors", "best.safetensors", "checkpoint.safetensors"})
    if (!(older && std::string_view(name) == "model.safetensors") && fs::is_regular_file(run / name, problem))
      return run / name;
  return {};
}

void take_sizes(gpt::command_line& line, const fs::path& file, const std::string& named) {
  const bool huggingface = file.filename() == "config.json";
  const size_pairs found = huggingface ? huggingface_sizes(file, named, line) : file_sizes(file, named);
  const std::string model = huggingface ? file.parent_path().string() : file.string();
  const bool experts = std::ranges::any_of(found, [](const auto& entry) { return entry.first == "experts"; });
  if (line.o.experts > 0 && !experts)
    throw bad_flag("--experts " + std::to_string(line.o.experts) + ": the model of " + named + ", " + model +
                   ", has one MLP for all tokens; leave it out");
  for (const auto& [name, value] : found) {
    const std::string given = now(line.o, name);
    if (value.empty()) continue;
    try {
      line.flags.set(name, value);
    } catch (const bad_flag& e) { throw bad_flag(named + ": " + file.string() + ": its " + e.what()); }
    if (!given.empty() && given != now(line.o, name))
      throw bad_flag("--" + name + " " + given + ": the model of " + named + ", " + model + ", has " + value +
                     "; leave it out");
  }
  if (line.o.architecture.empty()) line.flags.set("architecture", "gpt2");
  for (const std::string& name : sizes_of(line.o.architecture))
    if (now(line.o, name).empty())
      throw bad_flag(named + ": " + file.string() + ": does not say its " + name +
                     "; name a model of a run, its folder, or that of a Hugging Face GPT-2 or Llama");
  if (line.o.vocabulary < 256)
    throw bad_flag(named + ": " + file.string() + ": its vocabulary is " + std::to_string(line.o.vocabulary) +
                   ", and this trainer's is 256 or more");
}

void complete_sizes(gpt::command_line& line, const preset* from) {
  gpt::options& o = line.o;
  if (from != nullptr && from->kv_heads > 0) {
    if (o.architecture == "gpt2")
      throw bad_flag(std::string("--model ") + from->name + " is a Llama: leave out --architecture gpt2");
    o.architecture = "llama";
  }
  const auto complete = [&](const char* name, int value) {
    if (value >= 0 && now(o, name).empty() && (value > 0 || std::string_view(name) == "tied"))
      line.flags.set(name, std::to_string(value));
  };
  line.flags.set("architecture", o.architecture.empty() ? "gpt2" : o.architecture);
  if (from != nullptr) {
    complete("layers", from->layers);
    complete("heads", from->heads);
    complete("width", from->width);
    complete("context", from->context);
    complete("vocabulary", from->vocabulary);
    complete("kv-heads", from->kv_heads);
    complete("hidden", from->hidden);
    complete("tied", from->tied);
  }
  const auto text = [](int n) { return std::to_string(n); };
  if (o.width % o.heads != 0)
    throw bad_flag("--width " + text(o.width) + " is not divisible by --heads " + text(o.heads) + "; try --width " +
                   text((o.width / o.heads + 1) * o.heads));
  if (o.architecture == "llama") {
    complete("kv-heads", o.heads);
    complete("hidden", (8 * o.width / 3 + 31) / 32 * 32);
    complete("tied", 1);
    if (o.heads % o.kv_heads != 0)
      throw bad_flag("--heads " + text(o.heads) + " is not divisible by --kv-heads " + text(o.kv_heads));
    if (o.width / o.heads % 2 != 0)
      throw bad_flag("--width " + text(o.width) + " / --heads " + text(o.heads) + " is " + text(o.width / o.heads) +
                     ": a llama turns pairs, and its heads must be even");
    if (o.experts > 0) throw bad_flag("--experts is for --architecture gpt2");
  } else {
    for (const char* name : {"kv-heads", "hidden", "tied"})
      if (!now(o, name).empty()) throw bad_flag("--" + std::string(name) + " is for --architecture llama");
  }
  if (o.experts_per_token > 0 && o.experts == 0) throw bad_flag("--experts-per-token is for a model with --experts");
  if (o.experts > 0) {
    complete("experts-per-token", std::min(o.experts, 2));
    if (o.experts_per_token > o.experts)
      throw bad_flag("--experts-per-token " + text(o.experts_per_token) + ": there are " + text(o.experts) +
                     " experts");
  }
  if (o.vocabulary < 256)
    throw bad_flag("--vocabulary must be 256 or more, because text is read as bytes, not " + text(o.vocabulary));
}

trainer_build gpt_build(const fs::path& project, const gpt::options& o, const launched_job& job) {
  trainer_build all{.project = project, .folder = {}, .definitions = {}};
  std::string name = "l" + now(o, "layers") + "-h" + now(o, "heads") + "-w" + now(o, "width") + "-c" +
                     now(o, "context") + "-v" + now(o, "vocabulary") + "-b" + now(o, "batch") + "-" + o.precision;
  if (o.architecture == "llama")
    name += "-llama-k" + now(o, "kv-heads") + "-f" + now(o, "hidden") + "-t" + now(o, "tied");
  if (o.experts > 0) name += "-e" + now(o, "experts") + "-t" + now(o, "experts-per-token");
  if (o.optimizer != "adamw") name += "-" + o.optimizer;
  const auto define = [&](std::string flag, const std::string& value) {
    for (char& c : flag) c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    all.definitions.emplace_back("GPT_" + flag, value);
  };
  define("architecture", o.architecture);
  define("device", o.device);
  define("precision", o.precision);
  define("optimizer", o.optimizer);
  std::vector<std::string> sizes = sizes_of(o.architecture);
  sizes.emplace_back("batch");
  if (o.experts > 0) sizes.insert(sizes.end(), {"experts", "experts-per-token"});
  for (const std::string& size : sizes) define(size, now(o, size));
  all.set_device(o.device);
  if (o.device == "cuda") name += "-cuda";
  all.definitions.emplace_back("GRADUS_MPI", job.ranks > 0 ? "ON" : "OFF");
  if (job.ranks > 0) {
    name += "-mpi";
    all.definitions.emplace_back("GPT_MPI", "ON");
  }
  all.folder = project / "build" / "train" / name;
  return all;
}

}  // namespace command
