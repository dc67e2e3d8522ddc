// The trainer's flags: the table, and the checks that involve several of them.

#include "options.hpp"

#include <filesystem>
#include <limits>

#include <gradus/core/byte_size.hpp>
#include <gradus/run/run_folder.hpp>

#include "token_budget.hpp"
#include "tools/flags.hpp"

namespace gpt {
namespace {

using gr::bad_flag, gr::check_flag;

constexpr int most_ranks = 1 << 12;

// To add a flag: a member of options, a row here, and its name, limits and help in scripts/train.sh.
flag_table flags_of(options& o, std::string& save_every, std::string& config) {
  constexpr long long most_steps = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  constexpr long long most = std::numeric_limits<long long>::max();
  constexpr int most_bytes = std::numeric_limits<int>::max();
  return flag_table(
      "Trains a GPT on text, as bytes or as tokens.",
      {texts("data", o.files.data, "text files to train on; or token shards (*.bin), or a folder of them").path(),
       texts("validation-data", o.files.validation_data,
             "texts or shards for validation (default: val*.bin of the folder, or a share)")
           .path(),
       number(
           "validation", o.files.validation_share, "between 0 and 1", [](double x) { return x > 0 && x < 1; },
           "share of the data, from its end, for validation"),
       text("tokenizer", o.files.tokenizer,
            "tokenizer.json that encodes the texts (default: bytes), or encoded the shards (default: their folder's)")
           .path(),
       choice("order", o.order, {"random", "shuffled"},
              "random: windows at random places; shuffled: each window of the data once an epoch"),
       whole("workers", o.workers, 0, 64, "threads that make batches ahead; 0: they are made when needed"),
       whole("steps", o.steps, 1, most_steps, "optimizer steps (default: 1000 unless --minutes is given)")
           .without_default(),
       positive("minutes", o.minutes, "stop after this time; the learning rate follows the clock").without_default(),
       positive("lr", o.lr, "highest learning rate (with --init, a tenth by default)"),
       choice("schedule", o.schedule, {"constant", "linear", "cosine", "wsd"},
              "learning rate after the warm-up: constant, linear, cosine or wsd (stable, then decay)"),
       whole("warmup", o.warmup, 0, most, "steps over which the learning rate rises (at most a tenth of the run)"),
       not_negative("weight-decay", o.weight_decay, "on matrices only"),
       not_negative("clip", o.clip, "largest gradient norm; 0: no limit"),
       below_1("dropout", o.dropout, "share of values dropped in training"),
       seed_flag(o.seed, "of the weights, the batches and dropout"),
       threads_flag(o.threads),
       device_flag(device_name, o.gpu),
       whole("accumulate", o.accumulate, 1, most_batches, "batches a step"),
       whole("batch-tokens", o.batch_tokens, 1, most_batch_tokens, "tokens an update, from which --accumulate follows")
           .without_default(),
       whole(
           "ranks", o.ranks, 1, most_ranks,
           "ranks that share the work, each with batches of its own: threads of this process, on GPUs one a GPU (under "
           "mpirun: its processes)")
           .only_once(),
       whole(
           "leaves", o.leaves, 1, most_ranks,
           "partial sums of an update's gradients, a power of two: runs of any power of two of ranks up to it have the "
           "same bits (default: one a rank)")
           .without_default(),
       choice("shard", o.shard, {"nothing", "states", "gradients", "parameters"},
              "what ranks divide among themselves; gradients: and states; parameters: and both"),
       choice("sums", o.sums, {"tree", "fastest"},
              "tree: the sums over ranks have the same bits on any number of them; fastest: whatever the library does"),
       named("out", o.out, "the name of a folder", "run folder, new or empty (default: runs/<date>-<time>)")
           .only_once(),
       named("init", o.init, "a model.safetensors, or the folder of a run or of Hugging Face's",
             "start from the weights of a model: a model.safetensors, or the folder of a run or of Hugging Face's (a "
             "run that is resumed has read them)")
           .path(),
       named("resume", o.resume, "the folder of a run",
             "run folder to resume from its last checkpoint; the other flags must be those of the run "
             "(scripts/train.sh --resume reads them from its folder)")
           .only_once(),
       whole("eval-every", o.eval_every, 1, most, "steps between validation losses"),
       whole("sample", o.sample, 0, most_bytes, "tokens to write at the end (bytes without a tokenizer); 0: none"),
       on_off("save", o.save, "keep the trained parameters (on by default)"),
       text("save-every", save_every,
            "steps (100) or time (30s, 5m, 1h) between checkpoints while training; 0: save only at the end"),
       not_negative("save-retry", o.save_retry,
                    "seconds to retry if the model cannot be written at the end, as on a full disk"),
       whole("keep-checkpoints", o.keep_checkpoints, 1, static_cast<int>(gr::most_checkpoints),
             "checkpoints to keep: the last one, and those before it"),
       text("checkpoint", o.checkpoint,
            "activations that are recomputed in backward instead of kept: none, blocks (all of each block), attention, "
            "matmul (all but matrix products), keep:OPERATION,... or drop:OPERATION,..."),
       text("memory-budget", o.memory_budget,
            "most memory for parameters, optimizer state and steps, such as 600MiB; the text and some 12 MiB of the "
            "process come on top; what is recomputed is chosen for speed"),
       text("memory-report", o.memory_report,
            "picture of a step's memory, planned and measured: a page (.html) or a trace for Perfetto (.json)")
           .path(),
       on_off("profile", o.profile, "print at the end, and write to profile.txt, where the time of the steps went"),
       on_off("plan", o.plan, "print what memory the run would take, write --memory-report, and train nothing")
           .only_once(),
       on_off("graph", o.graph, "on a GPU: submit each step as one CUDA graph"),
       text("tune-products", o.tune_products,
            "on a GPU: try cuBLASLt's algorithms for each matrix product, and keep the fastest in this file")
           .path(),
       on_off("tensorboard", o.tensorboard, "write event files for TensorBoard into the run folder"),
       on_off("anomaly", o.anomaly,
              "end at the first operation, forward or backward, that computes a value that is not finite, and name it "
              "(slow: every value is read)"),
       text("config", config,
            "file of lines 'name = value' with these flags, such as the file config of a run folder; flags of the "
            "command line come first")
           .only_once()},
      {{"steps", "minutes", nullptr},
       {"anomaly", "profile", ""},
       {"validation", "validation-data", ""},
       {"accumulate", "batch-tokens", "; the tokens decide how many batches a step takes"},
       {"checkpoint", "memory-budget", "; the budget chooses what to checkpoint"}});
}

gr::config_entries compiled_in() {
  gr::config_entries all;
  all.emplace_back("architecture", architecture_name);
  for (const auto& [name, size] : sizes.named()) all.emplace_back(name, std::to_string(size));
  all.emplace_back("batch", std::to_string(batch_size));
  all.emplace_back("precision", precision_name);
  all.emplace_back("optimizer", optimizer_name);
  all.emplace_back("device", device_name);
  return all;
}

}  // namespace

std::optional<options> read_options(int argc, char** argv) {
  options o;
  std::string save_every = "5m", config;
  flag_table flags = flags_of(o, save_every, config);
  const gr::config_entries fixed = compiled_in();
  if (!flags.read(argc, argv, fixed)) return std::nullopt;

  if (o.files.data.empty() && !o.plan) throw bad_flag("--data is required: name a text file to train on");
  if (o.graph && !on_gpu) throw bad_flag("--graph submits steps to a GPU as CUDA graphs: it is for --device cuda");
  if (!o.tune_products.empty() && !on_gpu)
    throw bad_flag("--tune-products chooses algorithms of a GPU's library: it is for --device cuda");
  if (o.anomaly && on_gpu)
    throw bad_flag(
        "--anomaly reads everything that is computed, which is for the CPU: leave it out, or give --device cpu");
  if (flags.given("batch-tokens")) {
    const std::size_t batches = gpt::batches_for(o.batch_tokens, batch_size, sizes.context);
    check_flag(batches <= most_batches, "--batch-tokens",
               "at most " + std::to_string(most_batches * batch_size * sizes.context) + " with this batch",
               o.batch_tokens);
    o.accumulate = static_cast<int>(batches);
  }
  o.batches_given = flags.given("accumulate");
  if (flags.given("memory-budget")) try {
      gr::parse_bytes(o.memory_budget);
    } catch (const gr::error& e) { throw bad_flag(std::string("--memory-budget: ") + e.what()); }
  check_flag(o.memory_report.empty() || o.memory_report.ends_with(".html") || o.memory_report.ends_with(".json"),
             "--memory-report", "a file named *.html or *.json", o.memory_report);
  for (const auto* files : {&o.files.data, &o.files.validation_data})
    for (const std::string& file : *files) {
      std::error_code problem;  // where one does not exist, they differ
      if (!o.memory_report.empty() && std::filesystem::equivalent(file, o.memory_report, problem))
        throw bad_flag("--memory-report: " + o.memory_report + ": is a text of this run, which it would overwrite");
    }
  if (flags.given("resume")) {
    if (flags.given("out")) throw bad_flag("--out and --resume: give one of them; a resumed run stays in its folder");
    if (!o.save) throw bad_flag("--resume and --no-save: give one of them; a resumed run saves itself");
  }
  if (flags.given("init") && !flags.given("lr")) o.lr /= 10;
  if (o.steps == 0 && o.minutes == 0) o.steps = 1000;
  const pace saves = read_pace(save_every);
  o.save_seconds = saves.seconds;
  o.save_steps = saves.steps;
  o.config = fixed;
  const gr::config_entries run = flags.config();
  o.config.insert(o.config.end(), run.begin(), run.end());
  return o;
}

options options::of_rank(int number, int count) const {
  options o = *this;
  o.rank = number;
  o.ranks = count;
  if (number != 0) o.profile = o.tensorboard = false, o.memory_report.clear();
  const auto is_power_of_2 = [](int n) { return (n & (n - 1)) == 0; };
  check_flag(is_power_of_2(count), "--ranks", "a power of two", count);
  if (o.leaves == 0) o.leaves = count;
  check_flag(is_power_of_2(o.leaves), "--leaves", "a power of two", o.leaves);
  check_flag(o.leaves >= count, "--leaves", "at least the number of ranks (" + std::to_string(count) + ")", o.leaves);
  if (count == 1) o.shard = "nothing";  // there is nobody to share with
  if (o.leaves == 1) return o;
  if (o.batch_tokens > 0) o.accumulate = std::max((o.accumulate + o.leaves / 2) / o.leaves, 1) * o.leaves;
  else if (!batches_given) o.accumulate = std::max(o.accumulate, o.leaves);
  check_flag(o.accumulate % o.leaves == 0, "--accumulate",
             "a multiple of --leaves (" + std::to_string(o.leaves) + "): batches are divided evenly", o.accumulate);
  if (o.graph) throw bad_flag("--graph: is for one rank with one leaf; leave it out, or --ranks and --leaves");
  const auto note = [&o](const char* name, const std::string& value) {
    for (const auto& entry : o.config)
      if (entry.first == name) return;
    o.config.emplace_back(name, value);
  };
  note("leaves", std::to_string(o.leaves));
  if (o.batch_tokens == 0) note("accumulate", std::to_string(o.accumulate));
  return o;
}

}  // namespace gpt
