// The trainer's flags: the table, and the checks that involve several of them.

#include "options.hpp"

#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/run/run_folder.hpp>

#include "../llama/config.hpp"
#include "chat_format_flag.hpp"
#include "token_budget.hpp"

namespace gpt {
namespace {

using gr::bad_flag, gr::check_flag;

constexpr int most_ranks = 1 << 12, most_size = 999999;

// "gpt2" and the Llama family.
std::vector<std::string> architectures() {
  std::vector<std::string> all{"gpt2"};
  for (const llama::family& one : llama::families) all.emplace_back(one.name);
  return all;
}
// The sizes of any model, and other flags.
std::vector<std::string> model_sizes(const std::vector<std::string>& others) {
  std::vector<std::string> all;
  for (const llama::size_row& row : llama::size_rows) all.emplace_back(row.flag);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// To add a flag: a member of options and a row here.
flag_table flags_of(options& o, std::string& save_every, std::string& config) {
  constexpr long long most_steps = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  constexpr long long most = std::numeric_limits<long long>::max();
  constexpr int most_bytes = std::numeric_limits<int>::max();
  return flag_table(
      "Trains a GPT on text, as bytes or as tokens.",
      {texts("data", o.files.data,
             "text files to train on; or token shards (*.bin), or a folder of them; or examples, each a text, a prompt "
             "with its completion, or a chat: *.jsonl, *.csv, *.tsv, or a folder of texts (*.txt, *.md)")
           .path(),
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
       chat_format_flag(o.chat_format, "of examples that are chats: " + gr::chat_format_names() +
                                           " (default: what the tokenizer_config.json of --init says)"),
       choice("long-examples", o.long_examples, {"cut", "skip"},
              "what becomes of an example that is longer than the context: cut at its end, or skip"),
       choice("model", o.model, {"tiny", "nano", "seed", "gpt2", "gpt2-medium", "llama-tiny", "llama-15m", "llama-1b"},
              "tiny (default), nano, seed, gpt2, gpt2-medium, llama-tiny, llama-15m or llama-1b: sizes, and a rate and "
              "a length of "
              "sample that suit them")
           .unsaved(),
       choice("architecture", o.architecture, architectures(),
              "what kind of model has the sizes: gpt2, llama or a relative of it (default: gpt2; --model llama-... and "
              "--init say it)"),
       whole("layers", o.layers, 1, most_size, "blocks").without_default(),
       whole("heads", o.heads, 1, most_size, "heads of attention").without_default(),
       whole("width", o.width, 1, most_size, "features of a token").without_default(),
       whole("context", o.context, 1, most_size, "tokens that the model sees").without_default(),
       whole("vocabulary", o.vocabulary, 1, most_size, "tokens that there are (default: those of the tokenizer)")
           .without_default(),
       whole("batch", o.batch, 1, most_size,
             "sequences a step (with --batch-tokens and --memory-budget, the default is the largest that fits)")
           .without_default(),
       whole("experts", o.experts, 1, most_size,
             "MLPs of each block, of a gpt2, mixtral or qwen3_moe; a token takes some of them, and in a gpt2 these are "
             "together "
             "as wide as the one")
           .without_default(),
       whole("experts-per-token", o.experts_per_token, 1, most_size, "experts that a token takes (default: 2)")
           .without_default(),
       whole("kv-heads", o.kv_heads, 1, most_size, "of a llama: heads of keys and values (default: --heads)")
           .without_default(),
       whole("hidden", o.hidden, 1, most_size, "of a llama: features inside the MLP (default: 8/3 of the width)")
           .without_default(),
       choice("tied", o.tied, {"0", "1"},
              "of a llama: 1 if the head is the token table (default), 0 if it has its own"),
       whole("head-size", o.head_size, 1, most_size, "of a llama: elements of a head (default: --width / --heads)")
           .without_default(),
       choice(
           "biases", o.biases, {"0", "1", "2"},
           "of a llama: 1 if queries, keys and values have biases (default for qwen2), 2 if what attention gives has "
           "one, too"),
       choice(
           "precision", o.precision,
           {"fp32", "bf16_mixed", "bf16_stream", "bf16_gradients", "fp16_mixed", "bf16_pure", "fp64", "tf32",
            "fp8_mixed"},
           "fp32; bf16_mixed and fp16_mixed: parameters in fp32, products in 16 bits; bf16_stream: what blocks add up "
           "too; bf16_gradients: gradients too; bf16_pure: parameters too; on a GPU also tf32 and fp8_mixed"),
       optimizer_flag(o.optimizer),
       device_flag(o.device, o.gpu),
       whole("workers", o.workers, 0, 64, "threads that make batches ahead; 0: they are made when needed"),
       whole("steps", o.steps, 1, most_steps, "optimizer steps (default: 1000 unless --minutes is given)")
           .without_default(),
       positive("minutes", o.minutes, "stop after this time; the learning rate follows the clock").without_default(),
       positive("lr", o.lr,
                "highest learning rate (default: the model's, or of an optimizer other than adamw its usual one; with "
                "--init a tenth of that, with --lora a fifth, with --dpo a twentieth)")
           .without_default(),
       choice("schedule", o.schedule, {"constant", "linear", "cosine", "wsd"},
              "learning rate after the warm-up: constant, linear, cosine or wsd (stable, then decay)"),
       whole("warmup", o.warmup, 0, most, "steps over which the learning rate rises (at most a tenth of the run)"),
       not_negative("weight-decay", o.weight_decay, "on matrices only"),
       not_negative("clip", o.clip, "largest gradient norm; 0: no limit"),
       not_negative(
           "skip-spikes", o.skip_spikes,
           "skip an update whose gradient norm is more than this many standard deviations above the running mean; 0: "
           "never"),
       below_1("dropout", o.dropout, "share of values dropped in training"),
       seed_flag(o.seed, "of the weights, the batches and dropout"),
       threads_flag(o.threads),
       whole("accumulate", o.accumulate, 1, most_batches, "batches a step"),
       whole("batch-tokens", o.batch_tokens, 1, most_batch_tokens, "tokens an update, from which --accumulate follows")
           .without_default(),
       whole(
           "ranks", o.ranks, 1, most_ranks,
           "ranks that share the work, each with batches of its own: threads of this process, on GPUs one a GPU (under "
           "mpirun: its processes)")
           .unsaved(),
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
       named(
           "init", o.init, "a model.safetensors, a .gguf file, or the folder of a run or of Hugging Face's",
           "start from the weights of a model: a model.safetensors, a .gguf file, or the folder of a run or of Hugging "
           "Face's (a run that is resumed has read them)")
           .path(),
       whole("lora", o.lora, 1, most_size,
             "train adapters of this rank (LoRA) in place of the weights of --init, which stay as they are, in the "
             "precision of products")
           .without_default(),
       choice(
           "base", o.base, {"stored", "int8"},
           "how --lora keeps the matrices of linear layers: in the precision of products, or in 8 bits, with a scale "
           "for 64 values"),
       named("lora-on", o.lora_on, "all, or names of linear layers with commas between",
             "linear layers that get adapters: all, or their names, here or in Hugging Face's models, such as "
             "q_proj,v_proj"),
       positive("lora-alpha", o.lora_alpha, "adapters are multiplied by alpha / rank (default: twice the rank)")
           .without_default(),
       below_1("lora-dropout", o.lora_dropout, "share of what an adapter reads that is dropped in training"),
       on_off("rslora", o.rslora, "adapters are multiplied by alpha / sqrt(rank) instead"),
       positive("dpo", o.dpo,
                "train on preferences, by direct preference optimization with this beta, such as 0.1; the reference is "
                "the model without its adapters")
           .without_default(),
       named("resume", o.resume, "the folder of a run",
             "run folder to resume from its last checkpoint; the other flags must be those of the run "
             "(scripts/train.sh --resume reads them from its folder)")
           .only_once(),
       whole("eval-every", o.eval_every, 1, most, "steps between validation losses"),
       whole("early-stop", o.early_stop, 0, most_bytes,
             "end when this many validations in a row bring no new best; 0: never"),
       whole("sample-every", o.sample_every, 0, most, "steps between samples of what the model writes; 0: none"),
       whole("sample", o.sample, 0, most_bytes,
             "tokens of a sample, as at the end (bytes without a tokenizer); 0: none"),
       texts("sample-prompt", o.sample_prompts,
             "what a sample begins with, or the message that it answers if the examples are chats; may be given "
             "several times"),
       on_off("save", o.save, "keep the trained parameters (on by default)"),
       text("save-every", save_every,
            "steps (100) or time (30s, 5m, 1h) between checkpoints while training; 0: save only at the end"),
       not_negative("save-retry", o.save_retry,
                    "seconds to retry if the model cannot be written at the end, as on a full disk"),
       whole("keep-checkpoints", o.keep_checkpoints, 1, static_cast<int>(gr::most_checkpoints),
             "checkpoints to keep: the last one, and those before it"),
       text("checkpoint", o.checkpoint,
            "activations that are recomputed in backward instead of kept: none, blocks (all of each block), attention, "
            "matmul (all but matrix products), keep:OPERATION,... or drop:OPERATION,...; offload:OPERATION,...: these "
            "are kept in the host's memory, or on the CPU in the file of --offload"),
       named("offload", o.offload, "a folder on a disk",
             "on the CPU: folder for a file, gone at the end, in which the optimizer's states are instead of in memory")
           .path(),
       size("memory-budget", o.memory_budget,
            "most memory for parameters, optimizer state and steps, such as 600MiB; the text and some 12 MiB of the "
            "process come on top; what is recomputed is chosen for speed"),
       text("memory-report", o.memory_report,
            "picture of a step's memory, planned and measured: a page (.html), a curve (.svg) or a trace for Perfetto "
            "(.json)")
           .skipped_in_config(),
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
           .path()
           .only_once()},
      {{"steps", "minutes", nullptr},
       {"init", "model", "; the sizes are those of the model that --init names"},
       {"anomaly", "profile", ""},
       {"graph", "skip-spikes", "; whether an update is left out is decided between two parts of a step"},
       {"validation", "validation-data", ""},
       {"accumulate", "batch-tokens", "; the tokens decide how many batches a step takes"},
       {"checkpoint", "memory-budget", "; the budget chooses what to checkpoint"}},
      {{"model", model_sizes({"architecture", "batch", "lr", "sample", "init"})},
       {"init", model_sizes({"architecture", "tokenizer"})},
       {"optimizer", {"lr"}},
       {"device=cpu", {"graph", "tune-products"}}});
}

}  // namespace

std::vector<std::string> listed_operations(const std::string& checkpoint) {
  for (const char* word : {"none", "blocks", "attention", "matmul"})
    if (checkpoint == word) return {};
  const auto begins = [&](const char* word) { return checkpoint.starts_with(word); };
  check_flag(begins("keep:") || begins("drop:") || begins("offload:"), "--checkpoint",
             "none, blocks, attention, matmul, keep:OPERATION,..., drop:OPERATION,... or offload:OPERATION,...",
             quoted_if_empty(checkpoint));
  std::vector<std::string> names(1);
  for (const char c : checkpoint.substr(checkpoint.find(':') + 1))
    if (c == ',') names.emplace_back();
    else names.back() += c;
  for (const std::string& name : names)
    check_flag(!name.empty(), "--checkpoint", "keep:, drop: or offload: and names of operations with commas between",
               checkpoint);
  check_flag(names.size() <= 64, "--checkpoint", "a list of at most 64 operations", checkpoint);
  return names;
}

command_line::command_line() : flags(flags_of(o, save_every_, config_)) {}

bool holds_examples(const std::vector<std::string>& data) {
  return std::ranges::any_of(data, [](const std::filesystem::path& path) {
    const std::string kind = path.extension().string();
    for (const char* one : {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".gz", ".parquet"})
      if (kind == one) return true;
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) return false;
    return std::ranges::none_of(std::filesystem::directory_iterator(path, ignored),
                                [](const auto& entry) { return entry.path().extension() == ".bin"; });
  });
}

bool command_line::read(int argc, char** argv, const std::string& run_config) {
  if (!flags.read(argc, argv, run_config)) return false;
  const bool on_gpu = o.device == "cuda";
  if (o.graph && !on_gpu) throw bad_flag("--graph submits steps to a GPU as CUDA graphs: it is for --device cuda");
  if (!o.tune_products.empty() && !on_gpu)
    throw bad_flag("--tune-products chooses algorithms of a GPU's library: it is for --device cuda");
  if (o.anomaly && on_gpu)
    throw bad_flag(
        "--anomaly reads everything that is computed, which is for the CPU: leave it out, or give --device cpu");
  const auto is_kind = [&](const char* ending) { return o.memory_report.ends_with(ending); };
  check_flag(!flags.given("memory-report") || is_kind(".html") || is_kind(".svg") || is_kind(".json"),
             "--memory-report", "a file named *.html, *.svg or *.json", quoted_if_empty(o.memory_report));
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
  if (o.lora > 0 && o.init.empty() && !flags.given("resume"))
    throw bad_flag("--lora trains adapters of a model: name it with --init");
  // A run's config has all flags, so it is their values that count.
  const std::pair<const char*, bool> of_adapters[] = {{"base", o.base != "stored"},
                                                      {"lora-on", o.lora_on != "all"},
                                                      {"lora-alpha", o.lora_alpha != 0},
                                                      {"lora-dropout", o.lora_dropout != 0},
                                                      {"rslora", o.rslora},
                                                      {"dpo", o.dpo != 0}};
  for (const auto& [name, set] : of_adapters)
    if (o.lora == 0 && set) throw bad_flag(std::string("--") + name + " is for --lora RANK");
  const bool examples = holds_examples(o.files.data);
  std::error_code ignored;
  const auto is_folder = [&](const std::string& path) { return std::filesystem::is_directory(path, ignored); };
  const bool whole_folders =  // what is in them, the dataset says
      std::ranges::any_of(o.files.data, is_folder) || std::ranges::any_of(o.files.validation_data, is_folder);
  for (const auto* files : {&o.files.data, &o.files.validation_data})
    for (const std::string& file : *files)
      if (!o.files.data.empty() && !whole_folders && holds_examples({file}) != examples)
        throw bad_flag(
            (files == &o.files.data ? "--data: " : "--validation-data: ") + file +
            (examples ? ": is no file of examples, as the data are" : ": holds examples, and the data do not"));
  const std::pair<const char*, bool> of_examples[] = {{"chat-format", !o.chat_format.empty()},
                                                      {"long-examples", o.long_examples != "cut"}};
  for (const auto& [name, set] : of_examples)
    if (!examples && set && !o.files.data.empty())
      throw bad_flag(std::string("--") + name + " is for examples (*.jsonl, *.csv, *.tsv, folders of texts)");
  if (o.dpo > 0 && !examples && !o.files.data.empty())
    throw bad_flag("--dpo is for examples with a chosen and a rejected answer (*.jsonl)");
  if (o.dpo > 0 && (o.batch > 1 || o.batch_tokens > 0))
    throw bad_flag(std::string(o.batch > 1 ? "--batch" : "--batch-tokens") +
                   ": with --dpo a batch is one pair of answers; leave it out, --accumulate says how many pairs an "
                   "update has");
  if (examples && o.order != "random")
    throw bad_flag("--order is for texts and shards: examples are shuffled, each once an epoch");
  if (examples && o.graph) throw bad_flag("--graph: batches of examples differ in length, and a graph's do not");
  listed_operations(o.checkpoint);  // throws
  if (!o.offload.empty() && on_gpu)
    throw bad_flag("--offload keeps optimizer states in a file, which is for the CPU: leave it out, or --device cpu");
  if (o.checkpoint.starts_with("offload:") && !on_gpu && o.offload.empty())
    throw bad_flag("--checkpoint " + o.checkpoint +
                   ": on the CPU they are kept in a file; name its folder by --offload");
  if (o.sample_every > 0 && o.sample == 0)
    throw bad_flag("--sample-every and --sample 0: leave one of them out; a sample has tokens");
  if (!o.sample_prompts.empty() && o.sample == 0)
    throw bad_flag("--sample-prompt and --sample 0: leave one of them out; a sample has tokens");
  const pace saves = read_pace(save_every_);
  o.save_seconds = saves.seconds;
  o.save_steps = saves.steps;
  o.batches_given = flags.given("accumulate");
  return true;
}

void command_line::finish(double usual_rate) {
  if (flags.given("batch-tokens")) {
    const auto batch = static_cast<std::size_t>(o.batch), context = static_cast<std::size_t>(o.context);
    const std::size_t batches = gpt::batches_for(o.batch_tokens, batch, context);
    check_flag(batches <= most_batches, "--batch-tokens",
               "at most " + std::to_string(most_batches * batch * context) + " with this batch", o.batch_tokens);
    o.accumulate = static_cast<int>(batches);
  }
  const double part = o.dpo > 0 ? 20 : o.lora > 0 ? 5 : flags.given("init") ? 10 : 1;
  if (o.lr == 0) o.lr = usual_rate / part;
  if (o.lora_alpha == 0) o.lora_alpha = 2.0 * o.lora;
  if (o.steps == 0 && o.minutes == 0) o.steps = 1000;
  o.config = flags.config();
}

std::optional<options> read_options(int argc, char** argv, const gr::config_entries& compiled_for, double usual_rate) {
  command_line line;
  for (const auto& [name, value] : compiled_for) line.flags.fix(name, value);
  if (!line.read(argc, argv)) return std::nullopt;
  const auto is_rank = [](const auto& entry) { return entry.first == "lora"; };
  if (line.o.lora > 0 && std::ranges::none_of(compiled_for, is_rank))
    throw bad_flag("--lora: this program was compiled without adapters; scripts/gradus.sh compiles others");
  if (line.flags.given("model"))
    throw bad_flag("--model: this program was compiled for the sizes of one model; scripts/gradus.sh compiles others");
  if (line.o.files.data.empty() && !line.o.plan) throw bad_flag("--data is required: name a text file to train on");
  line.finish(usual_rate);
  return std::move(line.o);
}

options options::of_rank(int number, int count) const {
  options o = *this;
  o.rank = number;
  o.ranks = count;
  if (number != 0) o.profile = o.tensorboard = false, o.memory_report.clear();
  if (o.sample_every > 0 && o.shard == "parameters" && count > 1)
    throw bad_flag("--sample-every: with --shard parameters no rank has a whole model; leave one of them out");
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
