// gradus train-bert: decides sizes, compiles the trainer for them, and becomes it.

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/core/parse_number.hpp>
#include <gradus/run/program.hpp>

#include "../bert/options.hpp"
#include "models.hpp"
#include "readers.hpp"
#include "subcommands.hpp"

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;
using gr::bad_flag;

std::string text_of(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// The sizes, kinds and settings of the model in a folder of Hugging Face's. A size that was given must be the same.
void take_sizes(bert::command_line& line) {
  const std::string& init = line.o.init;
  const fs::path file = fs::path(init) / "config.json";
  if (!is_there(file)) throw bad_flag("--init: " + init + ": has no config.json");
  const bert::description found = [&] {
    try {
      return read_encoder(init, line.o.embeds());
    } catch (const gr::error& e) { throw bad_flag(std::string("--init: ") + e.what()); }
  }();
  const bool takes_head = found.has_head && !line.o.embeds();
  for (const auto& [name, value] : bert::kind_flags(found.sizes))
    if (takes_head || name != std::string_view("task")) take(line.flags, name, value, "--init", file);
  for (const auto& [name, member] : bert::size_flags)
    if (takes_head || name != std::string_view("labels"))
      take(line.flags, name, std::to_string(found.sizes.*member), "--init", file);
  line.flags.set_defaults("norm-epsilon=" + text_of(found.settings.epsilon));
  if (line.o.embeds()) {
    line.flags.set_defaults(std::string("pooling=") +
                            bert::pooling_names[found.settings.pooling == bert::pooling::cls]);
    if (found.settings.normalized) line.flags.set("normalize", "true");
  }
  check_tensors(init, "--init", line.o.embeds() ? "AutoModel" : "AutoModelForSequenceClassification");
}

// Classes of a file: as many as there are names, or one more than the largest number. The trainer checks each line.
int count_labels(const std::string& file) {
  std::ifstream lines(file);
  std::set<std::string> names;
  bool numbers = true, first = true;
  int largest = 1;
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
    names.insert(label);
  }
  return numbers ? largest + 1 : std::max(static_cast<int>(names.size()), 2);
}

}  // namespace

int train_bert(int argc, char** argv, const surroundings& here) {
  bert::command_line line;
  bert::options& o = line.o;
  if (!line.read(argc, argv)) return 0;
  if (here.job.ranks > 1)
    throw bad_flag("mpirun or srun has started " + std::to_string(here.job.ranks) +
                   " processes, and a BERT is trained by one");
  if (!o.files.data.empty()) check_file("--data", o.files.data);
  if (!o.files.data.empty() && !fs::is_regular_file(o.files.data))  // it is read twice
    throw bad_flag("--data: " + o.files.data + ": is not a plain file");
  if (!o.embed.empty()) check_file("--embed", o.embed);
  if (!o.files.validation_data.empty()) check_file("--validation-data", o.files.validation_data);
  if (!o.init.empty()) {
    if (!is_there(o.init)) throw bad_flag("--init: " + o.init + ": no such folder");
    take_sizes(line);
    if (!(o.files.data.empty() && o.embed.empty()) && !line.flags.given("tokenizer") && !is_there(o.files.tokenizer))
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
  line.flags.set_defaults(o.model == "bert-large"  ? "layers=24 heads=16 width=1024"
                          : o.model == "bert-base" ? "layers=12 heads=12 width=768"
                                                   : "layers=2 heads=2 width=128");
  line.flags.set_defaults("family=bert task=classes activation=gelu_erf");
  const bool classes = o.task == "classes";
  const int labels = !classes ? 1 : o.files.data.empty() ? 2 : count_labels(o.files.data);
  const bert::family_facts& family =
      *std::ranges::find(bert::families, o.family, [](const auto& f) { return std::string_view(f.flag); });
  line.flags.set_defaults(
      "segments=" + std::to_string(family.segments) + " first-position=" + std::to_string(family.first_position) +
      " embedding=" + std::to_string(family.embedding) + " norm-epsilon=" + text_of(family.epsilon));
  line.flags.set_defaults("hidden=" + std::to_string(4 * o.width) + " labels=" + std::to_string(labels) +
                          " positions=512 vocabulary=30522 length=128 batch=16 precision=" + o.precision +
                          " optimizer=" + o.optimizer + " device=" + o.device);
  if (o.width % o.heads != 0)
    throw bad_flag("--width " + std::to_string(o.width) + " is not divisible by --heads " + std::to_string(o.heads));
  if (o.length > o.positions - o.first_position)
    throw bad_flag("--length must be 3 to the model's " + std::to_string(o.positions - o.first_position) +
                   " positions");
  if (classes ? o.labels < 2 : o.labels != 1)
    throw bad_flag("--labels " + std::to_string(o.labels) + ": --task " + o.task + " has " +
                   (classes ? "2 or more" : "none"));
  check_device(o.device, o.gpu, o.plan);
  check_numbers(o.device, o.precision, o.optimizer);

  std::vector<std::string> names;
  for (const auto& [name, value] : bert::kind_flags({})) names.emplace_back(name);
  for (const auto& [name, member] : bert::size_flags) names.emplace_back(name);
  names.insert(names.end(), {"length", "batch", "precision", "optimizer", "device"});
  const trainer_build build(here.project, "BERT_", line.flags, names);
  // Where embeddings are printed, nothing else is.
  compile(build, {"bert_train"}, o.embed.empty() ? here.job : launched_job{.ranks = 0, .rank = 1});
  line.flags.forget("model");
  std::vector<std::string> words = build.start("bert/bert_train");
  for (std::string& word : line.flags.words()) words.push_back(std::move(word));
  become(words);
}

}  // namespace command
