// gradus sample, evaluate, convert, tokens: compile a tool for the sizes of a model, and become it.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/run/program.hpp>

#include "models.hpp"
#include "readers.hpp"
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
  line.flags.set_defaults("architecture=gpt2");  // of runs of earlier versions
  std::vector<std::string> needed = sizes_of(line.o.architecture);
  needed.emplace_back("batch");
  for (const std::string& size : needed)
    if (!line.flags.given(size))
      throw bad_flag(config.string() + ": it does not say " + size + "; is it the file of a run?");
}

// The model that a folder of a run or of Hugging Face's or a file is, with its sizes read into the flags.
fs::path model_named(gpt::command_line& line, const std::string& named) {
  if (!is_there(named)) throw bad_flag(named + ": no such file or folder");
  if (is_there(fs::path(named) / "config.json")) {
    check_tensors(named, named, "AutoModelForCausalLM");
    take_sizes(line, fs::path(named) / "config.json", "the model");
    return named;
  }
  if (is_folder(named)) {
    read_run(line, named);
    const fs::path model = gpt::model_in(named);
    if (!is_there(model)) throw bad_flag(named + ": no model was saved yet");
    if (model.filename() != "model.safetensors")
      std::fprintf(stderr, "gradus: the run has not ended; reading %s\n", model.c_str());
    return model;
  }
  const fs::path run = fs::path(named).parent_path();
  if (is_there(run / "config")) read_run(line, run);
  else take_sizes(line, named, "the model");
  return named;
}

// The adapters that --adapter names: those of a run become the file in it. Their rank is read into the flags.
std::string adapters_named(gpt::command_line& line, const std::string& named) {
  if (!is_there(named)) throw bad_flag("--adapter: " + named + ": no such file or folder");
  const fs::path peft = fs::path(named) / "adapter_config.json";
  const fs::path file = !is_folder(named) ? fs::path(named) : is_there(peft) ? peft : gpt::model_in(named);
  try {
    const std::string rank =
        file == peft ? value_of(read_json_object(file), "r") : value_of(read_metadata(file), "lora");
    if (rank.empty()) throw gr::error(file.string() + ": does not say the rank of its adapters, so it has none");
    line.flags.set("lora", rank);
  } catch (const gr::error& e) { throw bad_flag(std::string("--adapter: ") + e.what()); }
  return file == peft ? named : file.string();
}

// Compiles a tool for the model of these flags and becomes it. It says nothing while it compiles: the output is the
// tool's.
[[noreturn]] void become_tool(const char* tool, gpt::command_line& line, const surroundings& here,
                              const std::vector<std::string>& arguments) {
  const gpt::options& o = line.o;
  line.flags.set_defaults("batch=8 precision=" + o.precision + " optimizer=" + o.optimizer + " device=" + o.device);
  const trainer_build build = gpt_build(here.project, line, {});
  compile(build, {tool}, {.ranks = 0, .rank = 1});
  std::vector<std::string> words = build.start(tool);
  words.insert(words.end(), arguments.begin(), arguments.end());
  become(words);
}
// Its --help: as the tool of a small model, which is soon compiled, says it.
bool wants_help(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--help" || word == "-h"; });
}
void take_any_model(gpt::command_line& line) { line.flags.set_defaults("architecture=gpt2 " + preset_of("tiny")); }

// `gradus TOOL MODEL ...`: the tool of the model in a run's folder or a file.
int become_tool_of_model(const char* tool, int argc, char** argv, const surroundings& here) {
  gpt::command_line line;
  std::vector<std::string> passed;
  std::string device = "cpu";
  int gpu = 0;
  gpt::flag_table where("", {gpt::device_flag(device, gpu)});
  if (wants_help(argc, argv)) {
    std::puts("Names a model by the folder of a run, too.");
    take_any_model(line);
    passed = {"--help"};
  } else {
    if (argc < 2 || argv[1][0] == '-')
      throw bad_flag("name the folder of a run first, or its model.safetensors; --help says more");
    passed.push_back(model_named(line, argv[1]).string());
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const auto is_flag = [&](const char* flag) { return word == flag || word.starts_with(std::string(flag) + "="); };
      const auto value = [&] {
        if (const auto at = word.find('='); at != word.npos) return word.substr(at + 1);
        if (i + 1 == argc) throw bad_flag(word + " needs a value");
        return std::string(argv[++i]);
      };
      if (is_flag("--device")) where.set("device", value());
      else if (is_flag("--adapter")) passed.push_back("--adapter=" + adapters_named(line, value()));
      else passed.push_back(word);
    }
  }
  const auto has = [&](std::string_view flag) {
    return std::ranges::any_of(passed, [&](std::string_view word) { return word.starts_with(flag); });
  };
  if (std::ranges::find(passed, "--chat") != passed.end() && !has("--chat-format") && !line.o.chat_format.empty())
    passed.push_back("--chat-format=" + line.o.chat_format);  // of the run
  check_device(device, gpu, false);
  line.flags.set("device", device);
  if (gpu > 0) passed.push_back("--device=cuda:" + std::to_string(gpu));
  become_tool(tool, line, here, passed);
}

}  // namespace

int sample(int argc, char** argv, const surroundings& here) {
  return become_tool_of_model("gpt_sample", argc, argv, here);
}

int evaluate(int argc, char** argv, const surroundings& here) {
  return become_tool_of_model("gpt_evaluate", argc, argv, here);
}

int convert(int argc, char** argv, const surroundings& here) {
  gpt::command_line line;
  std::vector<std::string> passed(argv + 1, argv + argc);
  if (wants_help(argc, argv)) {
    take_any_model(line);
  } else {
    if (argc < 2 || argv[1][0] == '-')
      throw bad_flag("name first what to convert: a run or its model.safetensors, a Hugging Face folder, or NAME.gguf");
    using enum gpt::model_format;
    const std::string from = argv[1];
    const gpt::model_format has = gpt::format_to_read(from);
    if (!is_there(from)) throw bad_flag(from + ": no such file or folder");
    const std::string adapter = gpt::flag_table::word_after(argc, argv, "--adapter");
    const bool merges = !adapter.empty() || std::ranges::find(passed, "--merge") != passed.end();
    if (!adapter.empty()) {
      const std::string file = adapters_named(line, adapter);
      for (std::string& word : passed)
        if (word == adapter) word = file;
        else if (word == "--adapter=" + adapter) word = "--adapter=" + file;
    }
    if (has == own || merges) {
      passed.front() = model_named(line, from).string();
      line.flags.set("device", "cpu");
      if (merges)
        line.flags.set("precision", "fp32");  // weights and what is added to them are rounded once, at the end
    } else if (gpt::format_to_write(gpt::flag_table::word_after(argc, argv, "--out")) == own) {
      take_sizes(line, has == folder ? fs::path(from) / "config.json" : fs::path(from), "the model");
    } else {
      take_any_model(line);  // nothing depends on its sizes
    }
  }
  if (!wants_help(argc, argv)) {
    if (std::ranges::find(passed, "--merge") != passed.end() && line.o.lora == 0)
      throw bad_flag("--merge: " + passed.front() + " has no adapters");
    const std::string out = gpt::flag_table::word_after(argc, argv, "--out");
    const bool merges = std::ranges::any_of(
        passed, [](std::string_view word) { return word == "--merge" || word.starts_with("--adapter"); });
    if (line.o.lora > 0 && !merges && gpt::format_to_write(out) != gpt::model_format::folder)
      throw bad_flag("--out " + out + ": adapters become a new folder, of PEFT's; --merge writes the whole model");
  }
  become_tool("gpt_convert", line, here, passed);
}

int tokens(int argc, char** argv, const surroundings& here) {
  trainer_build build(here.project, "", gpt::flag_table("", {}), {});
  build.folder = build_folder(here.project) / "command";
  compile(build, {"gpt_tokens"}, {.ranks = 0, .rank = 1});
  std::vector<std::string> words = build.start("gpt_tokens");
  words.insert(words.end(), argv + 1, argv + argc);
  become(words);
}

}  // namespace command
