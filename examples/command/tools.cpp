// gradus sample, evaluate, convert, tokens: compile a tool for the sizes of a model, and become it.

#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/run/program.hpp>

#include "../gpt/tools/tool_flags.hpp"
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
// Checks the files that a tool reads besides the model.
void check_files(const std::string& tokenizer, const std::vector<std::string>& data) {
  if (!tokenizer.empty()) check_file("--tokenizer", tokenizer);
  for (const std::string& file : data) check_file("--data", file);
}

// `gradus TOOL MODEL ...`: the tool of the model in a run's folder or a file. Returns false if it was --help.
template <class Options>
bool read_tool(Options& o, gpt::flag_table& flags, int argc, char** argv) {
  if (gpt::asks_for_help(argc, argv)) std::puts("Names a model by the folder of a run, too.");
  else if (argc < 2) throw bad_flag("name the folder of a run first, or its model.safetensors; --help says more");
  if (!flags.read(argc, argv)) return false;
  check_device(o.device, o.gpu, false);
  return true;
}
template <class Options>
[[noreturn]] void become_tool_of_model(const char* tool, gpt::command_line& line, const Options& o,
                                       gpt::flag_table& flags, const surroundings& here) {
  line.flags.set("device", o.device);
  std::vector<std::string> words = flags.words();
  if (o.gpu > 0) words.insert(words.begin(), "--device=cuda:" + std::to_string(o.gpu));
  become_tool(tool, line, here, words);
}

// Throws gr::bad_flag unless a file beside the model says how it writes chats.
void check_chat(const gpt::sample_options& o) {
  const auto folder_of = [](const fs::path& path) { return is_folder(path) ? path : path.parent_path(); };
  try {
    if (says_chat_format(folder_of(o.tokenizer.empty() ? o.model : o.tokenizer)) ||
        (!o.adapter.empty() && says_chat_format(folder_of(o.adapter))))
      return;
  } catch (const gr::error& e) { throw bad_flag(std::string("--chat: ") + e.what()); }
  throw bad_flag("--chat: no file beside the model says how it writes chats; name its --chat-format: " +
                 gr::chat_format_names());
}

}  // namespace

int sample(int argc, char** argv, const surroundings& here) {
  gpt::sample_options o;
  gpt::flag_table flags = o.table();
  gpt::command_line line;
  if (!read_tool(o, flags, argc, argv)) return 0;
  o.check(flags);
  check_files(o.tokenizer, {});
  flags.set("model", model_named(line, o.model).string());
  if (!o.adapter.empty()) flags.set("adapter", adapters_named(line, o.adapter));
  if (o.chat && o.chat_format.empty() && !line.o.chat_format.empty()) flags.set("chat-format", line.o.chat_format);
  if (o.chat && o.chat_format.empty()) check_chat(o);
  become_tool_of_model("gpt_sample", line, o, flags, here);
}

int evaluate(int argc, char** argv, const surroundings& here) {
  gpt::evaluate_options o;
  gpt::flag_table flags = o.table();
  gpt::command_line line;
  if (!read_tool(o, flags, argc, argv)) return 0;
  check_files(o.tokenizer, o.data);
  flags.set("model", model_named(line, o.model).string());
  if (!o.adapter.empty()) flags.set("adapter", adapters_named(line, o.adapter));
  become_tool_of_model("gpt_evaluate", line, o, flags, here);
}

int convert(int argc, char** argv, const surroundings& here) {
  gpt::convert_options o;
  gpt::flag_table flags = o.table();
  gpt::command_line line;
  if (argc < 2)
    throw bad_flag("name first what to convert: a run or its model.safetensors, a Hugging Face folder, or NAME.gguf");
  if (!flags.read(argc, argv)) return 0;
  if (!is_there(o.from)) throw bad_flag(o.from + ": no such file or folder");
  check_files(o.tokenizer, {});
  using enum gpt::model_format;
  const gpt::model_format has = gpt::format_to_read(o.from);
  if (!o.adapter.empty()) flags.set("adapter", adapters_named(line, o.adapter));
  if (has == own || o.merges()) {
    flags.set("from", model_named(line, o.from).string());
    line.flags.set("device", "cpu");
    if (o.merges())
      line.flags.set("precision", "fp32");  // weights and what is added to them are rounded once, at the end
  } else if (gpt::format_to_write(o.out) == own) {
    take_sizes(line, has == folder ? fs::path(o.from) / "config.json" : fs::path(o.from), "the model");
  } else {  // nothing depends on its sizes
    line.flags.set_defaults("architecture=gpt2 " + preset_of("tiny"));
  }
  o.check(flags, line.o.lora > 0);
  become_tool("gpt_convert", line, here, flags.words());
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
