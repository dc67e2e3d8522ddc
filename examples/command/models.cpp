#include "models.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>

#include <gradus/run/program.hpp>

#include "../gpt/lora_layers.hpp"
#include "../llama/config.hpp"
#include "readers.hpp"

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;
using gr::bad_flag;

// The sizes in a config.json, by the names of their flags.
facts huggingface_sizes(const fs::path& file, const std::string& named, gpt::command_line& line) {
  const bool gguf = gpt::format_to_read(file) == gpt::model_format::gguf;
  const facts values = gguf ? read_gguf_config(file) : read_json_object(file);
  const auto in = [&](const char* key) { return value_of(values, key); };
  if (in("model_type") == "gpt2") {
    if (!gguf) check_plain(file);
    return {{"architecture", "gpt2"}, {"vocabulary", in("vocab_size")}, {"layers", in("n_layer")},
            {"heads", in("n_head")},  {"width", in("n_embd")},          {"context", in("n_positions")}};
  }
  facts all = read_llama_sizes(file);
  const int longest = *gr::parse_number<int>(all["context"]);
  if (line.o.context > longest)
    throw bad_flag("--context " + std::to_string(line.o.context) + ": the model of " + named + ", " +
                   (gguf ? file : file.parent_path()).string() + ", has " + std::to_string(longest));
  line.flags.set_defaults("context=" + std::to_string(std::min(longest, 1024)));
  all.erase("context");
  return all;
}

facts file_sizes(const fs::path& file) {
  facts all;
  for (const auto& [name, value] : read_metadata(file)) {
    for (const llama::size_row& row : llama::size_rows)
      if (name == row.flag) all[name] = value;
    if (name == "lora") all[name] = value;  // of a file of adapters
    if (name == "model" && value.starts_with("gradus "))
      all["architecture"] = value == "gradus gpt" ? "gpt2" : value.substr(7);
  }
  return all;
}

}  // namespace

std::string preset_of(const std::string& model) {
  const std::map<std::string, std::string> presets{
      {"tiny", "layers=4 heads=4 width=128 context=128 vocabulary=256 batch=16 lr=3e-3 sample=400"},
      {"nano", "layers=6 heads=6 width=384 context=256 vocabulary=256 batch=12 lr=1e-3 sample=400"},
      {"seed", "layers=4 heads=4 width=256 context=512 vocabulary=50257 batch=8 lr=1e-3 sample=300"},
      {"gpt2", "layers=12 heads=12 width=768 context=1024 vocabulary=50257 batch=8 lr=6e-4 sample=0"},
      {"gpt2-medium", "layers=24 heads=16 width=1024 context=1024 vocabulary=50257 batch=8 lr=3e-4 sample=0"},
      {"llama-tiny",
       "layers=4 heads=4 width=128 context=128 vocabulary=256 kv-heads=2 hidden=384 tied=1 batch=16 lr=3e-3 "
       "sample=400"},
      {"llama-15m",  // of llama2.c
       "layers=6 heads=6 width=288 context=256 vocabulary=32000 kv-heads=6 hidden=768 tied=1 batch=8 lr=1e-3 "
       "sample=300"},
      {"llama-1b",  // Llama 3.2 1B
       "layers=16 heads=32 width=2048 context=2048 vocabulary=128256 kv-heads=8 hidden=8192 tied=1 batch=1 lr=3e-4 "
       "sample=0"}};
  return presets.at(model);
}

std::vector<std::string> sizes_of(const std::string& architecture) {
  if (architecture == "gpt2") return {"layers", "heads", "width", "context", "vocabulary"};
  std::vector<std::string> all;
  for (const llama::size_row& row : llama::size_rows)
    if (!row.optional) all.emplace_back(row.flag);
  return all;
}

void check_tensors(const std::string& folder, const std::string& named, const char* auto_class) {
  fs::path tensors;
  try {
    tensors = gpt::huggingface_tensors(folder, auto_class);
  } catch (const gr::error& e) { throw bad_flag(named + ": " + e.what()); }
  if (!is_there(tensors)) throw bad_flag(named + ": " + folder + ": has no model.safetensors");
  if (tensors.extension() != ".json") return;
  try {
    for (const std::string& shard : read_shards(tensors))
      if (!is_there(fs::path(folder) / shard))
        throw gr::error(folder + ": has no " + shard + ", which " + tensors.filename().string() + " names");
  } catch (const gr::error& e) { throw bad_flag(named + ": " + e.what()); }
}

void check_numbers(const std::string& device, const std::string& precision, const std::string& optimizer) {
  if (device == "cpu" && (precision == "tf32" || precision == "fp8_mixed"))
    throw bad_flag("--precision " + precision + " is for --device cuda: TF32 and FP8 are formats of NVIDIA GPUs");
  if (precision == "fp64" && (optimizer == "adafactor" || optimizer == "adamw_8bit" || optimizer == "muon"))
    throw bad_flag("--optimizer " + optimizer + " makes its steps in float; give another --precision than fp64");
}

void take(gpt::flag_table& flags, const std::string& name, const std::string& value, const std::string& named,
          const fs::path& file) {
  const std::string given = flags.value(name);
  try {
    flags.set(name, value);
  } catch (const bad_flag& e) { throw bad_flag(named + ": " + file.string() + ": its " + e.what()); }
  const std::string model = file.filename() == "config.json" ? file.parent_path().string() : file.string();
  if (!given.empty() && given != flags.value(name))
    throw bad_flag("--" + name + " " + given + ": the model of " + named + ", " + model + ", has " + value +
                   "; leave it out");
}

void take_sizes(gpt::command_line& line, const fs::path& file, const std::string& named) {
  facts found;
  try {
    const bool own = file.filename() != "config.json" && gpt::format_to_read(file) == gpt::model_format::own;
    found = own ? file_sizes(file) : huggingface_sizes(file, named, line);
  } catch (const bad_flag&) { throw; } catch (const gr::error& e) {
    throw bad_flag(named + ": " + e.what());
  }
  if (line.o.experts > 0 && value_of(found, "experts").empty())
    throw bad_flag("--experts " + line.flags.value("experts") + ": the model of " + named +
                   " has one MLP for all tokens; leave it out");
  for (const auto& [name, value] : found)
    if (!value.empty()) take(line.flags, name, value, named, file);
  line.flags.set_defaults("architecture=gpt2");
  for (const std::string& name : sizes_of(line.o.architecture))
    if (!line.flags.given(name))
      throw bad_flag(named + ": " + file.string() + ": does not say its " + name +
                     "; name a model of a run, its folder, or that of a Hugging Face GPT-2 or relative of Llama");
  if (line.o.vocabulary < 256)
    throw bad_flag(named + ": " + file.string() + ": its vocabulary is " + line.flags.value("vocabulary") +
                   ", and this trainer's is 256 or more");
}

void complete_sizes(gpt::command_line& line) {
  const gpt::options& o = line.o;
  const auto given = [&](const char* name) { return line.flags.value(name); };
  line.flags.set_defaults("architecture=gpt2");
  if (o.width % o.heads != 0 && o.head_size == 0)
    throw bad_flag("--width " + given("width") + " is not divisible by --heads " + given("heads") + "; try --width " +
                   std::to_string((o.width / o.heads + 1) * o.heads));
  if (o.architecture != "gpt2") {
    const llama::family& kind = llama::families[llama::family_named(o.architecture)];
    line.flags.set_defaults("tied=1 kv-heads=" + given("heads") +
                            " hidden=" + std::to_string((8 * o.width / 3 + 31) / 32 * 32));
    if (o.heads % o.kv_heads != 0)
      throw bad_flag("--heads " + given("heads") + " is not divisible by --kv-heads " + given("kv-heads"));
    if (o.head_size % 2 != 0) throw bad_flag("--head-size must be even, because pairs turn, not " + given("head-size"));
    if (o.head_size == 0 && o.width / o.heads % 2 != 0)
      throw bad_flag("--width " + given("width") + " / --heads " + given("heads") + " is " +
                     std::to_string(o.width / o.heads) + ": a llama turns pairs, and its heads must be even");
    if (kind.caps_logits && o.device == "cuda")
      throw bad_flag("--device cuda: a GPU has no capped scores, which a " + std::string(kind.title) + " has");
    if (kind.mixed()) line.flags.set_defaults("experts=8");
    else if (o.experts > 0) throw bad_flag("--experts is for --architecture gpt2, mixtral or qwen3_moe");
  } else {
    for (const char* name : {"kv-heads", "hidden", "tied", "head-size", "biases"})
      if (line.flags.given(name)) throw bad_flag("--" + std::string(name) + " is for --architecture llama");
  }
  if (o.experts > 0) line.flags.set_defaults("experts-per-token=" + std::to_string(std::min(o.experts, 2)));
  else if (o.experts_per_token > 0) throw bad_flag("--experts-per-token is for a model with --experts");
  if (o.experts_per_token > o.experts)
    throw bad_flag("--experts-per-token " + given("experts-per-token") + ": there are " + given("experts") +
                   " experts");
  if (o.dpo > 0 && o.experts > 0) throw bad_flag("--dpo is for models without experts, whose use it would not balance");
  if (o.lora > o.width)
    throw bad_flag("--lora " + given("lora") + ": is a rank below the width of the model, " + given("width"));
  if (o.lora > 0)
    gpt::choose_layers(gpt::adaptable_layers(o.architecture, o.layers, o.experts > 0), o.lora_on, "--lora-on");
  if (o.vocabulary < 256)
    throw bad_flag("--vocabulary must be 256 or more, because text is read as bytes, not " + given("vocabulary"));
}

void check_budget(const gpt::command_line& line) {
  const gpt::options& o = line.o;
  if (o.memory_budget.empty() || o.shard == "parameters") return;
  const double width = o.width, hidden = o.hidden, kv = width / o.heads * o.kv_heads, experts = std::max(o.experts, 1);
  double parameters = width * o.vocabulary, of_a_block = 12 * width * width;
  if (o.architecture != "gpt2") {
    const double head = o.head_size > 0 ? 1.0 * o.head_size * o.heads : width;
    of_a_block =
        2 * width * (head + (o.head_size > 0 ? 1.0 * o.head_size * o.kv_heads : kv)) + 3 * width * hidden * experts;
    if (o.tied == "0") parameters *= 2;
  }
  parameters += o.layers * of_a_block;
  const double bytes = o.lora > 0                   ? (o.base == "stored" ? 2 : 1)  // products' precision, or int8
                       : o.precision == "fp64"      ? 8
                       : o.precision == "bf16_pure" ? 2
                                                    : 4;
  if (const auto budget = static_cast<double>(gr::parse_bytes(o.memory_budget)); budget < bytes * parameters)
    throw bad_flag("--memory-budget: no schedule fits in " + gr::format_bytes(static_cast<std::size_t>(budget)) +
                   ": the parameters alone take " + gr::format_bytes(static_cast<std::size_t>(bytes * parameters)) +
                   " or more");
}

trainer_build gpt_build(const fs::path& project, const gpt::command_line& line, const launched_job& job) {
  std::vector<std::string> names = sizes_of(line.o.architecture);
  for (const llama::size_row& row : llama::size_rows)
    if (row.optional && line.flags.given(row.flag)) names.emplace_back(row.flag);
  names.insert(names.begin(), "architecture");
  names.insert(names.end(), {"batch", "precision", "optimizer", "device"});
  if (line.o.lora > 0) names.insert(names.end() - 1, "lora");
  if (line.o.base != "stored") names.insert(names.end() - 1, "base");
  trainer_build all(project, "GPT_", line.flags, names);
  if (gpt::holds_examples(line.o.files.data) || line.o.dpo > 0) {
    all.folder += "-examples";
    all.definitions.emplace_back("GPT_PACKED", "1");
  }
  if (line.o.dpo > 0) {
    all.folder += "-preferences";
    all.definitions.emplace_back("GPT_PREFERENCES", "1");
  }
  all.definitions.emplace_back("GRADUS_MPI", job.ranks > 0 ? "ON" : "OFF");
  if (job.ranks > 0) {
    all.folder += "-mpi";
    all.definitions.emplace_back("GPT_MPI", "ON");
  }
  return all;
}

}  // namespace command
