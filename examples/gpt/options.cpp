#include "options.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include <gradus/core/byte_size.hpp>
#include <gradus/core/parse_number.hpp>
#include <gradus/train/run_folder.hpp>
#include <gradus/train/token_budget.hpp>

#include "device_flag.hpp"
#include "flags.hpp"

namespace gpt {

namespace {

// What is compiled in.
gr::config_entries compiled_in() {
  gr::config_entries all;
  for (const auto& [name, size] : named_sizes()) all.emplace_back(name, std::to_string(size));
  all.emplace_back("batch", std::to_string(batch_size));
  all.emplace_back("precision", precision_name);
  all.emplace_back("optimizer", optimizer_name);
  all.emplace_back("device", device_name);
  return all;
}

// Flags of which one takes the place of another.
bool exclude_each_other(std::string_view a, std::string_view b) {
  constexpr std::string_view groups[][2] = {{"steps", "minutes"},
                                            {"checkpoint", "memory-budget"},
                                            {"validation", "validation-data"},
                                            {"accumulate", "batch-tokens"},
                                            {"profile", "anomaly"}};
  return a == b || std::ranges::any_of(
                       groups, [&](const auto& g) { return (a == g[0] && b == g[1]) || (a == g[1] && b == g[0]); });
}

constexpr std::string_view switches[] = {"save", "profile", "tensorboard", "anomaly", "graph"};

gr::config_entries read_config(const std::string& file) {
  try {
    return gr::read_config(file);
  } catch (const gr::error& e) { throw bad_flag(std::string("--config: ") + e.what()); }
}

// Words of a command line.
struct command_words {
  std::vector<std::string> all;
  std::map<std::string, std::string> files;  ///< flags that a file gives, with the file's name
};

// The words of the command line behind those of the files that --config names, without what the command line says
// itself.
command_words with_configs(int argc, char** argv) {
  command_words words;
  std::vector<std::string> given, files, names;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--config") {
      if (i + 1 == argc) throw bad_flag("--config needs the name of a file");
      files.emplace_back(argv[++i]);
      continue;
    }
    if (word.starts_with("--config=")) {
      files.emplace_back(word.substr(9));
      continue;
    }
    given.emplace_back(word);
    if (!word.starts_with("--")) continue;
    const std::string_view name = word.substr(2, word.find('=') - 2);
    names.emplace_back(name == "no-save" ? "save" : name);
  }
  const gr::config_entries fixed = compiled_in();
  for (const std::string& file : files)
    for (const auto& [name, value] : read_config(file)) {
      const auto compiled = std::ranges::find(fixed, name, [](const auto& e) { return e.first; });
      if (compiled != fixed.end()) {
        if (compiled->second == value) continue;
        throw bad_flag("--config: " + file + ": its " + name + " is " + value + ", and this program was compiled for " +
                       compiled->second + "; scripts/train.sh --config compiles one for it");
      }
      if (std::ranges::any_of(names, [&n = name](const auto& g) { return exclude_each_other(g, n); })) continue;
      if (std::ranges::find(switches, name) != std::end(switches)) {
        check_flag(value == "true" || value == "false", "--config: " + file + ": " + name, "true or false", value);
        if (value == "true") words.all.push_back("--" + name);
        else if (name == "save") words.all.push_back("--no-save");
        continue;
      }
      words.all.push_back("--" + name);
      words.all.push_back(value);
      words.files.emplace(name, file);
    }
  words.all.insert(words.all.end(), given.begin(), given.end());
  return words;
}

// Whether a message is of this flag.
bool names_flag(std::string_view message, const std::string& name) {
  const std::size_t at = message.find("--" + name);
  if (at == std::string_view::npos) return false;
  const std::string_view behind = message.substr(at + 2 + name.size());
  return behind.empty() || behind.front() == ' ' || behind.front() == ':';
}

// What repeats a run: every flag, given or not, and files by absolute names.
gr::config_entries repeating(const CLI::App& app, const options& o) {
  gr::config_entries all = compiled_in();
  const auto is_given = [&](const std::string& name) { return app.get_option("--" + name)->count() > 0; };
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    if (name.empty() || name == "help" || name == "out" || name == "resume" || name == "plan" || name == "device")
      continue;
    const bool is_file = name == "data" || name == "validation-data" || name == "tokenizer" || name == "init" ||
                         name == "memory-report" || name == "tune-products";
    if (std::ranges::find(switches, name) != std::end(switches)) continue;
    if (option->count() > 0) {
      std::vector<std::string> values = option->results();  // all that were given
      if (name != "data" && name != "validation-data") values.erase(values.begin(), values.end() - 1);
      for (const std::string& value : values)
        all.emplace_back(name, is_file ? std::filesystem::absolute(value).string() : value);
    } else if (const std::string value = option->get_default_str(); !value.empty() && !is_file) {
      const bool replaced = (name == "checkpoint" && is_given("memory-budget")) ||
                            (name == "validation" && is_given("validation-data")) ||
                            (name == "accumulate" && is_given("batch-tokens"));
      if (!replaced) all.emplace_back(name, value);
    }
  }
  if (o.minutes == 0 && !is_given("steps")) all.emplace_back("steps", std::to_string(o.steps));
  for (const auto& [name, on] : {std::pair{"save", o.save},
                                 {"profile", o.profile},
                                 {"tensorboard", o.tensorboard},
                                 {"anomaly", o.anomaly},
                                 {"graph", o.graph}})
    all.emplace_back(name, on ? "true" : "false");
  gr::config_text(all);  // throws where a file's name cannot stand in it
  return all;
}

// "100": steps; "30s", "5m", "1h": time.
void read_pace(const std::string& text, options& o) {
  const char unit = text.empty() ? ' ' : text.back();
  const double seconds = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  const std::string_view digits(text.data(), text.size() - (seconds > 0 ? 1 : 0));
  const double number = digits.find_first_of("eE") == digits.npos ? gr::parse_number<double>(digits).value_or(-1) : -1;
  const bool whole = number == std::floor(number) && number <= 4294967295.0;
  check_flag(number >= 0 && std::isfinite(number) && (seconds > 0 || whole), "--save-every",
             "a number of steps, such as 100, or a time, such as 30s, 5m or 1h", text.empty() ? "''" : text);
  o.save_seconds = number * seconds;
  o.save_steps = seconds > 0 ? 0 : static_cast<long long>(number);
}

std::optional<options> read_words(std::vector<std::string> words, const std::string& what) {
  options o;
  CLI::App app{what};
  app.option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // a flag of a resumed run can be given anew
  app.add_option("--data", o.files.data, "text files to train on; or token shards (*.bin), or a folder of them")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1);
  auto* judged = app.add_option("--validation-data", o.files.validation_data,
                                "texts or shards for validation (default: val*.bin of the folder, or a share)")
                     ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                     ->expected(1, -1);
  auto* share = add_number(
                    app, "--validation", o.files.validation_share, "between 0 and 1",
                    [](double x) { return x > 0 && x < 1; }, "share of the data, from its end, for validation")
                    ->capture_default_str();
  app.add_option(
      "--tokenizer", o.files.tokenizer,
      "tokenizer.json that encodes the texts (default: bytes), or encoded the shards (default: their folder's)");
  app.add_option("--order", o.order,
                 "random: windows at random places; shuffled: each window of the data once an epoch")
      ->capture_default_str();
  add_whole_number(app, "--workers", o.workers, 0, 64, "threads that make batches ahead; 0: they are made when needed")
      ->capture_default_str();
  constexpr long long most_steps = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  constexpr long long most = std::numeric_limits<long long>::max();
  add_whole_number(app, "--steps", o.steps, 1, most_steps, "optimizer steps (default: 1000 unless --minutes is given)");
  add_number(app, "--minutes", o.minutes, "a positive number", is_positive,
             "stop after this time; the learning rate follows the clock");
  auto* lr = add_number(app, "--lr", o.lr, "a positive number", is_positive,
                        "highest learning rate (with --init, a tenth by default)")
                 ->capture_default_str();
  app.add_option("--schedule", o.schedule,
                 "learning rate after the warm-up: constant, linear, cosine or wsd (stable, then decay)")
      ->capture_default_str();
  add_whole_number(app, "--warmup", o.warmup, 0, most,
                   "steps over which the learning rate rises (at most a tenth of the run)")
      ->capture_default_str();
  add_number(app, "--weight-decay", o.weight_decay, "0 or more", is_not_negative, "on matrices only")
      ->capture_default_str();
  add_number(app, "--clip", o.clip, "0 or more", is_not_negative, "largest gradient norm; 0: no limit")
      ->capture_default_str();
  add_number(app, "--dropout", o.dropout, "at least 0 and below 1", is_below_1, "share of values dropped in training")
      ->capture_default_str();
  add_whole_number(app, "--seed", o.seed, 0, most_seed, "of the weights, the batches and dropout")
      ->capture_default_str();
  add_whole_number(app, "--threads", o.threads, 0, most_threads, "threads; 0: one a core")->capture_default_str();
  add_device(app, o.gpu);
  auto* accumulate =
      add_whole_number(app, "--accumulate", o.accumulate, 1, most_batches, "batches a step")->capture_default_str();
  auto* tokens = add_whole_number(app, "--batch-tokens", o.batch_tokens, 1, most_batch_tokens,
                                  "tokens an update, from which --accumulate follows");
  auto* out = app.add_option("--out", o.out, "run folder, new or empty (default: runs/<date>-<time>)");
  auto* init = app.add_option(
      "--init", o.init,
      "start from the weights of a model: a model.safetensors, or the folder of a run or of Hugging Face's (a run "
      "that is resumed has read them)");
  auto* resume =
      app.add_option("--resume", o.resume,
                     "run folder to resume from its last checkpoint; the other flags are to be those of the run "
                     "(scripts/train.sh --resume reads them from its folder)");
  add_whole_number(app, "--eval-every", o.eval_every, 1, most, "steps between validation losses")
      ->capture_default_str();
  add_whole_number(app, "--sample", o.sample, 0, most_bytes,
                   "tokens to write at the end (bytes without a tokenizer); 0: none")
      ->capture_default_str();
  app.add_flag("--save,!--no-save", o.save, "keep the trained parameters (on by default)");
  std::string save_every = "5m";
  app.add_option("--save-every", save_every,
                 "steps (100) or time (30s, 5m, 1h) between checkpoints while training; 0: save only at the end")
      ->capture_default_str();
  add_number(app, "--save-retry", o.save_retry, "0 or more", is_not_negative,
             "seconds to go on trying where the model cannot be written at the end, as on a full disk")
      ->capture_default_str();
  add_whole_number(app, "--keep-checkpoints", o.keep_checkpoints, 1, static_cast<int>(gr::most_checkpoints),
                   "checkpoints to keep: the last one, and those before it")
      ->capture_default_str();
  auto* checkpoint =
      app.add_option(
             "--checkpoint", o.checkpoint,
             "activations that are computed again at backward instead of kept: none, blocks (all of each block), "
             "attention, matmul (all but matrix products), keep:OPERATION,... or drop:OPERATION,...")
          ->capture_default_str();
  auto* budget = app.add_option(
      "--memory-budget", o.memory_budget,
      "most memory for parameters, optimizer state and steps, such as 600MiB; the text and some 12 MiB of the "
      "process come on top; what is computed again is chosen for speed");
  app.add_option("--memory-report", o.memory_report,
                 "picture of a step's memory, planned and measured: a page (.html) or a trace for Perfetto (.json)");
  app.add_flag("--profile", o.profile, "print at the end, and write to profile.txt, where the time of the steps went");
  app.add_flag("--plan", o.plan, "print what memory the run would take, write --memory-report, and train nothing");
  app.add_flag("--graph", o.graph, "on a GPU: submit each step as one CUDA graph");
  app.add_option("--tune-products", o.tune_products,
                 "on a GPU: try cuBLASLt's algorithms for each matrix product, and keep the fastest in this file");
  app.add_flag("--tensorboard", o.tensorboard, "write event files for TensorBoard into the run folder");
  app.add_flag(
      "--anomaly", o.anomaly,
      "end at the first operation, forward or backward, that computes something that is not finite, and name it "
      "(takes time: everything that is computed is read)");
  std::string config;  // read before
  app.add_option("--config", config,
                 "file of lines 'name = value' with these flags, such as the file config of a run folder; flags of the "
                 "command line come first");
  if (!read_flags(app, std::move(words))) return std::nullopt;

  if (o.files.data.empty() && !o.plan) throw bad_flag("--data is required: name a text file to train on");
  if (o.graph && !on_gpu) throw bad_flag("--graph submits steps to a GPU as CUDA graphs: it is for --device cuda");
  if (!o.tune_products.empty() && !on_gpu)
    throw bad_flag("--tune-products chooses algorithms of a GPU's library: it is for --device cuda");
  if (o.anomaly && on_gpu)
    throw bad_flag(
        "--anomaly reads everything that is computed, which is for the CPU: leave it out, or give --device cpu");
  if (o.anomaly && o.profile) throw bad_flag("--anomaly and --profile: give one of them");
  if (share->count() > 0 && judged->count() > 0) throw bad_flag("--validation and --validation-data: give one of them");
  check_flag(o.order == "random" || o.order == "shuffled", "--order", "random or shuffled", o.order);
  if (tokens->count() > 0) {
    if (accumulate->count() > 0)
      throw bad_flag(
          "--accumulate and --batch-tokens: give one of them; the tokens decide how many batches a step takes");
    const std::size_t batches = gr::batches_for(o.batch_tokens, batch_size, sizes.context);
    check_flag(batches <= most_batches, "--batch-tokens",
               "at most " + std::to_string(most_batches * batch_size * sizes.context) + " with this batch",
               o.batch_tokens);
    o.accumulate = static_cast<int>(batches);
  }
  if (budget->count() > 0) {
    if (checkpoint->count() > 0)
      throw bad_flag("--checkpoint and --memory-budget: give one of them; the budget chooses what to checkpoint");
    try {
      gr::parse_bytes(o.memory_budget);
    } catch (const gr::error& e) { throw bad_flag(std::string("--memory-budget: ") + e.what()); }
  }
  check_flag(o.memory_report.empty() || o.memory_report.ends_with(".html") || o.memory_report.ends_with(".json"),
             "--memory-report", "a file named *.html or *.json", o.memory_report);
  if (resume->count() > 0) {
    check_flag(!o.resume.empty(), "--resume", "the folder of a run", "''");
    if (out->count() > 0) throw bad_flag("--out and --resume: give one of them; a resumed run stays in its folder");
    if (!o.save) throw bad_flag("--resume and --no-save: give one of them; a resumed run saves itself");
  }
  if (init->count() > 0) {
    check_flag(!o.init.empty(), "--init", "a model.safetensors, or the folder of a run or of Hugging Face's", "''");
    if (lr->count() == 0) {
      o.lr /= 10;
      lr->capture_default_str();
    }
  }
  if (out->count() > 0) check_flag(!o.out.empty(), "--out", "the name of a folder", "''");
  if (o.steps == 0 && o.minutes == 0) o.steps = 1000;
  check_flag(o.schedule == "constant" || o.schedule == "linear" || o.schedule == "cosine" || o.schedule == "wsd",
             "--schedule", "constant, linear, cosine or wsd", o.schedule);
  read_pace(save_every, o);
  o.config = repeating(app, o);
  return o;
}

}  // namespace

std::optional<options> read_options(int argc, char** argv, const std::string& what) {
  const command_words words = with_configs(argc, argv);
  try {
    return read_words(words.all, what);
  } catch (const bad_flag& e) {
    const std::string problem = e.what();
    for (const auto& [name, file] : words.files)
      if (names_flag(problem, name)) throw bad_flag("--config: " + file + ": " + problem);
    throw;
  }
}

void check_vocabulary(std::size_t tokens) {
  if (tokens > sizes.vocabulary)
    throw gr::error("the tokenizer has " + std::to_string(tokens) + " tokens, and this program was compiled for " +
                    std::to_string(sizes.vocabulary) + "; give scripts/train.sh --vocabulary " +
                    std::to_string(tokens));
}

}  // namespace gpt
