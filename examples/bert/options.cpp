// The trainer's flags: the table, and the checks that involve several of them.

#include "options.hpp"

#include <limits>

#include <gradus/core/byte_size.hpp>

#include "../gpt/tools/flags.hpp"

namespace bert {

std::optional<options> read_options(int argc, char** argv) {
  using namespace gpt;                                                         // the kinds of flags
  constexpr long long most_steps = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  bert::options o;
  std::string save_every = "5m";
  flag_table flags(
      "Trains a BERT to classify texts.",
      {text(
           "data", o.files.data,
           "texts: a file of lines 'text TAB label', or 'text TAB label TAB second text'; labels are numbers or names"),
       text("validation-data", o.files.validation_data, "the same for validation (default: a share of the data)"),
       number(
           "validation", o.files.validation_share, "between 0 and 1", [](double x) { return x > 0 && x < 1; },
           "share of the data, from its end, for validation"),
       text("tokenizer", o.files.tokenizer, "tokenizer.json of WordPiece (default: that of --init)"),
       on_off("dummy", o.dummy, "train on 512 sequences of random tokens with random labels"),
       positive("epochs", o.epochs, "times that each text is used"),
       whole("steps", o.steps, 1, most_steps, "optimizer steps, in place of --epochs").without_default(),
       positive("lr", o.lr, "highest learning rate"),
       below_1("warmup", o.warmup, "share of the steps over which the learning rate rises; then it falls to 0"),
       not_negative("weight-decay", o.weight_decay, "on matrices only"),
       not_negative("clip", o.clip, "largest gradient norm; 0: no limit"),
       below_1("dropout", o.dropout, "share of values dropped in training"),
       seed_flag(o.seed, "of the weights, the batches and dropout"),
       threads_flag(o.threads),
       whole("accumulate", o.accumulate, 1, 1000, "batches a step"),
       text("out", o.out, "run folder, new or empty (default: runs/<date>-<time>)"),
       text("init", o.init, "start from a folder of Hugging Face's BERT, or from the folder 'model' of a run"),
       text("resume", o.resume, "run folder to resume from its checkpoint; the other flags must be those of the run"),
       whole("eval-every", o.eval_every, 1, most_steps, "steps between validations (default: after each epoch)")
           .without_default(),
       text("save-every", save_every, "steps (100) or time (30s, 5m, 1h) between checkpoints; 0: save only at the end"),
       choice("checkpoint", o.checkpoint, {"none", "blocks", "matmul"},
              "activations that are recomputed in backward: none, all of each block, or all but matrix products"),
       text("memory-budget", o.memory_budget, "most memory, such as 4GiB; what is recomputed is chosen for speed"),
       on_off("plan", o.plan, "print what memory the run would take, and train nothing")},
      {{"data", "dummy", ""},
       {"steps", "epochs", ""},
       {"out", "resume", "; a resumed run stays in its folder"},
       {"validation", "validation-data", ""},
       {"checkpoint", "memory-budget", "; the budget chooses what to checkpoint"}});
  if (!flags.read(argc, argv)) return std::nullopt;

  if (o.files.data.empty() && !o.dummy && !o.plan)
    throw gr::bad_flag("--data is required: name a file of labelled texts, or give --dummy");
  if (o.files.tokenizer.empty() && !o.init.empty()) o.files.tokenizer = o.init + "/tokenizer.json";
  if (o.files.tokenizer.empty() && !o.files.data.empty())
    throw gr::bad_flag("--tokenizer is required: name a tokenizer.json of WordPiece");
  const pace saves = read_pace(save_every);
  o.save_seconds = saves.seconds;
  o.save_steps = saves.steps;
  if (flags.given("memory-budget")) try {
      gr::parse_bytes(o.memory_budget);
    } catch (const gr::error& e) { throw gr::bad_flag(std::string("--memory-budget: ") + e.what()); }
  return o;
}

}  // namespace bert
