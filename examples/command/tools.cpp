// gradus sample, evaluate, convert, tokens: compile a tool for the sizes of a model, and become it.

#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/train/program.hpp>

#include "models.hpp"
#include "subcommands.hpp"

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;
using gr::bad_flag;

// Reads what a run was started with: its model's sizes.
void read_run(gpt::command_line& line, const fs::path& run) {
  const fs::path config = run / "config";
  if (!is_there(config) && is_there(run / "flags"))
    throw bad_flag(run.string() +
                   ": a run of an earlier version, which had a file 'flags' in place of 'config'; "
                   "gpt_sample, compiled for its sizes, can read its model");
  if (!is_there(config)) throw bad_flag(run.string() + ": no run of gradus train: it has no file 'config'");
  std::string name = "gradus";
  char* words[] = {name.data()};
  line.flags.read(1, words, config.string());
  if (line.o.architecture.empty()) line.o.architecture = "gpt2";  // of runs of earlier versions
  std::vector<std::string> needed = sizes_of(line.o.architecture);
  needed.emplace_back("batch");
  for (const std::string& size : needed)
    if (!line.flags.given(size))
      throw bad_flag(config.string() + ": it does not say " + size + "; is it the file of a run?");
}

// The model that a folder of a run or a file is, with its sizes read into the flags.
fs::path model_named(gpt::command_line& line, const std::string& named) {
  if (!is_there(named)) throw bad_flag(named + ": no such file or folder");
  if (is_folder(named)) {
    read_run(line, named);
    const fs::path model = model_of_run(named);
    if (model.empty()) throw bad_flag(named + ": no model was saved yet");
    if (model.filename() != "model.safetensors")
      std::fprintf(stderr, "gradus: the run has not ended; reading %s\n", model.c_str());
    return model;
  }
  const fs::path run = fs::path(named).parent_path();
  if (is_there(run / "config")) {
    read_run(line, run);
  } else {
    take_sizes(line, named, "the model");
    line.flags.set("batch", "8");
  }
  return named;
}

[[noreturn]] void become_tool(const char* tool, const gpt::options& o, const surroundings& here,
                              const std::vector<std::string>& arguments) {
  const trainer_build build = gpt_build(here.project, o, {});
  std::vector<std::string> words = o.device == "cuda" ? gpu_launcher() : std::vector<std::string>{};
  compile(build, {tool}, {.ranks = 0, .rank = 1});  // without a word: the output is the tool's
  words.push_back(build.program(tool).string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  become(words);
}

bool wants_help(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (argv[i] == std::string_view("--help") || argv[i] == std::string_view("-h")) return true;
  return false;
}

// `gradus TOOL MODEL ...`: the tool of the model in a run's folder or a file.
int become_tool_of_model(const char* tool, const char* what, int argc, char** argv, const surroundings& here) {
  if (argc < 2 || (argv[1][0] == '-' && !wants_help(argc, argv)))
    throw bad_flag("name the folder of a run first, or its model.safetensors; --help says more");
  gpt::command_line line;
  std::string device = "cpu";
  std::vector<std::string> passed;
  if (wants_help(argc, argv)) {  // of a small model, which is soon compiled
    std::printf("gradus %s RUN ...: RUN is the folder of a run or its model.safetensors\n\n", what);
    std::fflush(stdout);
    line.o.architecture = "gpt2";
    complete_sizes(line, &find_preset("tiny"));
    line.flags.set("batch", "16");
    passed = {"--help"};
  } else {
    passed.push_back(model_named(line, argv[1]).string());
    gpt::flag_table where("", {gpt::device_flag(device, line.o.gpu)});
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const bool is_device = word == "--device" || word.starts_with("--device=");
      if (is_device && word == "--device" && i + 1 == argc) throw bad_flag("--device needs a value");
      if (is_device) where.set("device", word == "--device" ? argv[++i] : word.substr(9));
      else passed.push_back(word);
    }
  }
  check_device(device, line.o.gpu, false);
  line.o.device = device;
  if (line.o.gpu > 0) passed.push_back("--device=cuda:" + std::to_string(line.o.gpu));
  become_tool(tool, line.o, here, passed);
}

}  // namespace

int sample(int argc, char** argv, const surroundings& here) {
  return become_tool_of_model("gpt_sample", "sample", argc, argv, here);
}

int evaluate(int argc, char** argv, const surroundings& here) {
  return become_tool_of_model("gpt_evaluate", "evaluate", argc, argv, here);
}

int convert(int argc, char** argv, const surroundings& here) {
  gpt::command_line line;
  std::vector<std::string> passed(argv + 1, argv + argc);
  const std::string to = gpt::flag_table::word_after(argc, argv, "--to-huggingface");
  const std::string from = gpt::flag_table::word_after(argc, argv, "--from-huggingface");
  if (wants_help(argc, argv)) passed = {"--help"};
  else if (to.empty() == from.empty())
    throw bad_flag("give one of --from-huggingface FOLDER and --to-huggingface MODEL");
  if (!to.empty()) {
    const std::string model = model_named(line, to).string();
    for (std::string& word : passed)
      if (word == to) word = model;
      else if (word == "--to-huggingface=" + to) word = "--to-huggingface=" + model;
  } else if (!from.empty()) {
    if (!is_there(fs::path(from) / "config.json"))
      throw bad_flag("--from-huggingface: " + from + ": has no config.json: it is no folder of Hugging Face's");
    take_sizes(line, fs::path(from) / "config.json", "--from-huggingface");
    line.flags.set("batch", "8");
  } else {
    line.o.architecture = "gpt2";
    complete_sizes(line, &find_preset("tiny"));
    line.flags.set("batch", "16");
  }
  line.o.device = "cpu";
  become_tool("gpt_convert", line.o, here, passed);
}

int tokens(int argc, char** argv, const surroundings& here) {
  trainer_build build{.project = here.project, .folder = here.project / "build" / "command", .definitions = {}};
  build.set_device("cpu");
  build.definitions.emplace_back("GRADUS_MPI", "OFF");
  compile(build, {"gpt_tokens"}, {.ranks = 0, .rank = 1});
  std::vector<std::string> words{build.program("gpt_tokens").string()};
  words.insert(words.end(), argv + 1, argv + argc);
  become(words);
}

}  // namespace command
