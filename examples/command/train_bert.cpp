// gradus train-bert: decides sizes, compiles the trainer for them, and becomes it.

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/core/parse_number.hpp>
#include <gradus/train/program.hpp>

#include "../bert/options.hpp"
#include "build.hpp"
#include "readers.hpp"
#include "subcommands.hpp"

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;
using gr::bad_flag;

// The sizes and the labels of the model in a folder of Hugging Face's. A size that was given must be the same.
void take_sizes(bert::command_line& line) {
  const std::string& init = line.o.init;
  const fs::path folder = init;
  const auto fail = [&](const std::string& what) { throw bad_flag("--init: " + init + what); };
  if (!is_there(folder / "config.json")) fail(": has no config.json");
  facts values;
  try {
    values = read_json_object(folder / "config.json");
  } catch (const gr::error& e) { throw bad_flag(std::string("--init: ") + e.what()); }
  if (value_of(values, "model_type") != "bert") fail("/config.json: is not of a BERT: its model_type must be \"bert\"");
  if (value_of(values, "type_vocab_size") != "2")
    fail("/config.json: its 'type_vocab_size' must be 2: the texts of a pair");
  const auto take = [&](const std::string& name, const std::string& size, int given) {
    try {
      line.flags.set(name, size);
    } catch (const bad_flag& e) { fail("/config.json: its " + std::string(e.what())); }
    if (given > 0 && std::to_string(given) != size)
      throw bad_flag("--" + name + " " + std::to_string(given) + ": the model of --init, " + init + ", has " + size +
                     "; leave it out");
  };
  const bert::options& o = line.o;
  const std::array<std::tuple<const char*, const char*, int>, 6> sizes{
      {{"layers", "num_hidden_layers", o.layers},
       {"heads", "num_attention_heads", o.heads},
       {"width", "hidden_size", o.width},
       {"hidden", "intermediate_size", o.hidden},
       {"positions", "max_position_embeddings", o.positions},
       {"vocabulary", "vocab_size", o.vocabulary}}};
  for (const auto& [name, key, given] : sizes) {
    const std::string found = value_of(values, key);
    if (found.empty()) fail(std::string("/config.json: has no '") + key + "'");
    take(name, found, given);
  }
  if (value_of(values, "architectures[0]").ends_with("ForSequenceClassification")) {
    const std::string named = value_of(values, "id2label");
    take("labels", named.empty() ? "2" : named, o.labels);  // 2: transformers leaves it out
  }
  if (!is_there(folder / "model.safetensors") && !is_there(folder / "model.safetensors.index.json")) {
    if (is_there(folder / "pytorch_model.bin") || is_there(folder / "pytorch_model.bin.index.json"))
      fail(
          ": has pytorch_model.bin and no model.safetensors, which transformers makes of it: python3 -c 'from "
          "transformers "
          "import AutoModelForSequenceClassification as M; M.from_pretrained(\"" +
          init + "\").save_pretrained(\"" + init + "\")'");
    fail(": has no model.safetensors");
  }
}

// Labels that a file has: as many as there are names, or one more than the largest number. The trainer checks each line.
int count_labels(const std::string& file) {
  std::ifstream lines(file);
  std::vector<std::string> names;
  bool numbers = true;
  int largest = 1;
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    const std::size_t tab = line.find('\t');
    if (tab == line.npos) continue;
    std::string label = line.substr(tab + 1, line.find_first_of("\t\r", tab + 1) - tab - 1);
    label = label.substr(std::min(label.find_first_not_of(' '), label.size()));
    label = label.substr(0, label.find_last_not_of(' ') + 1);
    if (first && label == "label") continue;
    const auto n = gr::parse_number<int>(label);
    if (n && *n >= 0 && *n <= 65535) largest = std::max(largest, *n);
    else numbers = false;
    if (std::ranges::find(names, label) == names.end() && names.size() < 65536) names.push_back(label);
  }
  return numbers ? largest + 1 : std::max(static_cast<int>(names.size()), 2);
}

trainer_build bert_build(const fs::path& project, const bert::options& o) {
  trainer_build all{.project = project, .folder = {}, .definitions = {}};
  const auto text = [](int n) { return std::to_string(n); };
  all.definitions = {
      {"BERT_LAYERS", text(o.layers)}, {"BERT_HEADS", text(o.heads)},         {"BERT_WIDTH", text(o.width)},
      {"BERT_HIDDEN", text(o.hidden)}, {"BERT_POSITIONS", text(o.positions)}, {"BERT_VOCABULARY", text(o.vocabulary)},
      {"BERT_LABELS", text(o.labels)}, {"BERT_LENGTH", text(o.length)},       {"BERT_BATCH", text(o.batch)},
      {"BERT_PRECISION", o.precision}, {"BERT_OPTIMIZER", o.optimizer},       {"BERT_DEVICE", o.device}};
  all.set_device(o.device);
  all.folder = project / "build" / "bert" /
               ("l" + text(o.layers) + "-h" + text(o.heads) + "-w" + text(o.width) + "-" + text(o.hidden) + "-p" +
                text(o.positions) + "-v" + text(o.vocabulary) + "-c" + text(o.labels) + "-t" + text(o.length) + "-b" +
                text(o.batch) + "-" + o.precision + "-" + o.optimizer + "-" + o.device);
  return all;
}

}  // namespace

int train_bert(int argc, char** argv, const surroundings& here) {
  bert::command_line line;
  bert::options& o = line.o;
  if (!line.read(argc, argv)) return 0;
  if (!o.files.data.empty()) check_file("--data", o.files.data);
  if (!o.files.validation_data.empty()) check_file("--validation-data", o.files.validation_data);
  if (!o.init.empty()) {
    if (!is_there(o.init)) throw bad_flag("--init: " + o.init + ": no such folder");
    take_sizes(line);
    if (!o.files.data.empty() && !line.flags.given("tokenizer") && !is_there(o.files.tokenizer))
      throw bad_flag("--init: " + o.init + ": has no tokenizer.json; name one with --tokenizer");
  }
  if (line.flags.given("tokenizer")) check_file("--tokenizer", o.files.tokenizer);
  std::error_code problem;
  if (!o.out.empty() && is_there(o.out) && !fs::is_empty(o.out, problem))
    throw bad_flag("--out: " + o.out + ": is not empty; name another folder");
  if (!o.resume.empty()) {
    if (!is_folder(o.resume)) throw bad_flag("--resume: " + o.resume + ": no such folder");
    if (!is_there(fs::path(o.resume) / "checkpoint.safetensors") &&
        !is_there(fs::path(o.resume) / "checkpoint-previous.safetensors"))
      throw bad_flag("--resume: " + o.resume + ": has no checkpoint");
  }
  struct preset {
    std::string_view name;
    int layers, heads, width;
  };
  constexpr std::array presets{preset{"bert-tiny", 2, 2, 128}, preset{"bert-base", 12, 12, 768},
                               preset{"bert-large", 24, 16, 1024}};
  const preset& from = *std::ranges::find(
      presets, o.model.empty() ? std::string_view("bert-tiny") : std::string_view(o.model), &preset::name);
  const auto complete = [&](const char* name, int now, int value) {
    if (now == 0) line.flags.set(name, std::to_string(value));
  };
  complete("layers", o.layers, from.layers);
  complete("heads", o.heads, from.heads);
  complete("width", o.width, from.width);
  complete("hidden", o.hidden, 4 * o.width);
  complete("positions", o.positions, 512);
  complete("vocabulary", o.vocabulary, 30522);
  complete("length", o.length, 128);
  complete("batch", o.batch, 16);
  complete("labels", o.labels, o.files.data.empty() ? 2 : count_labels(o.files.data));
  if (o.width % o.heads != 0)
    throw bad_flag("--width " + std::to_string(o.width) + " is not divisible by --heads " + std::to_string(o.heads));
  if (o.length > o.positions)
    throw bad_flag("--length must be 3 to the model's " + std::to_string(o.positions) + " positions");
  check_device(o.device, o.gpu, o.plan);
  if (o.precision == "tf32" && o.device != "cuda") throw bad_flag("--precision tf32 is for --device cuda");
  if (o.precision == "fp64" && (o.optimizer == "adafactor" || o.optimizer == "adamw_8bit" || o.optimizer == "muon"))
    throw bad_flag("--optimizer " + o.optimizer + " makes its steps in float; give another --precision");

  const trainer_build build = bert_build(here.project, o);
  compile(build, {"bert_train"}, here.job);
  line.flags.forget("model");
  std::vector<std::string> words = o.device == "cuda" ? gpu_launcher() : std::vector<std::string>{};
  words.push_back((build.folder / "examples" / "bert" / "bert_train").string());
  for (std::string& word : line.flags.words()) words.push_back(std::move(word));
  become(words);
}

}  // namespace command
