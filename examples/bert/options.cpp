// The trainer's flags: the table, and the checks that involve several of them.

#include "options.hpp"

#include <limits>
#include <utility>

namespace bert {
namespace {

gpt::flag_table flags_of(options& o, std::string& save_every) {
  using namespace gpt;                                                         // the kinds of flags
  constexpr long long most_steps = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  constexpr int most_size = 999999;
  return flag_table(
      "Trains a BERT, RoBERTa, XLM-R, DistilBERT or ALBERT to classify texts, or to make sentence embeddings.",
      {text("data", o.files.data,
            "texts: a file of lines 'text TAB label', or 'text TAB label TAB second text'; labels are numbers or "
            "names, or "
            "scores; for --task contrastive 'text TAB second text'")
           .path(),
       text("validation-data", o.files.validation_data, "the same for validation (default: a share of the data)")
           .path(),
       number(
           "validation", o.files.validation_share, "between 0 and 1", [](double x) { return x > 0 && x < 1; },
           "share of the data, from its end, for validation"),
       text("tokenizer", o.files.tokenizer, "tokenizer.json, such as that of a BERT (default: that of --init)").path(),
       on_off("dummy", o.dummy, "train on 512 sequences of random tokens with random labels"),
       choice("task", o.task, {"classes", "regression", "cosine", "contrastive"},
              "classes (default), regression (labels are numbers), or sentence embeddings: cosine (labels are the "
              "cosine that the texts of a pair should have) or contrastive (each text finds its second text)"),
       text("embed", o.embed, "a file of texts, one a line: print the sentence embedding of each, and train nothing")
           .path(),
       choice("pooling", o.pooling, {"mean", "cls"},
              "what an embedding is: the mean of the tokens, or the first one (default: that of --init, or mean)"),
       on_off("normalize", o.normalize, "sentence embeddings have length 1 (default: as those of --init)"),
       choice("family", o.family, {"bert", "roberta", "xlm_roberta", "distilbert", "albert"},
              "bert (default), roberta, xlm_roberta, distilbert or albert"),
       choice("activation", o.activation, {"gelu_erf", "gelu", "relu", "silu"},
              "in the MLP: gelu_erf (default), gelu (in its tanh form), relu or silu"),
       choice("model", o.model, {"bert-tiny", "bert-base", "bert-large"},
              "bert-tiny (default), bert-base or bert-large: sizes"),
       whole("layers", o.layers, 1, most_size, "blocks").without_default(),
       whole("heads", o.heads, 1, most_size, "heads of attention").without_default(),
       whole("width", o.width, 1, most_size, "features of a token").without_default(),
       whole("hidden", o.hidden, 1, most_size, "features inside the MLP (default: 4 times the width)")
           .without_default(),
       whole("positions", o.positions, 1, most_size, "longest sequence of the model (default: 512)").without_default(),
       whole("vocabulary", o.vocabulary, 1, most_size, "tokens that there are (default: 30522)").without_default(),
       whole("segments", o.segments, 0, most_size, "kinds of tokens: 2 for the texts of a pair (default: the family's)")
           .without_default(),
       whole("first-position", o.first_position, 0, most_size, "position of a first token (default: the family's)")
           .without_default(),
       whole("embedding", o.embedding, 0, most_size,
             "features in the tables of tokens, 0: the width (default: 0; albert: 128)")
           .without_default(),
       number(
           "norm-epsilon", o.epsilon, "between 0 and 1", [](double x) { return x > 0 && x < 1; },
           "what norms add to the variance (default: that of --init, or the family's)")
           .without_default(),
       whole("labels", o.labels, 1, most_size,
             "classes (default: those of the classifier of --init, or else of --data, or 2)")
           .without_default(),
       whole("length", o.length, 3, most_size, "tokens of a sequence (default: 128): longer texts are cut")
           .without_default(),
       whole("batch", o.batch, 1, most_size, "sequences a batch (default: 16)").without_default(),
       choice("precision", o.precision,
              {"fp32", "bf16_mixed", "fp16_mixed", "bf16_stream", "bf16_gradients", "bf16_pure", "fp64", "tf32"},
              "what parameters are stored in and products computed in: fp32, bf16_mixed, fp16_mixed, bf16_stream, "
              "bf16_gradients, bf16_pure or fp64; on a GPU also tf32"),
       optimizer_flag(o.optimizer),
       device_flag(o.device, o.gpu),
       positive("epochs", o.epochs, "times that each text is used"),
       whole("steps", o.steps, 1, most_steps, "optimizer steps, in place of --epochs").without_default(),
       positive("lr", o.lr, "highest learning rate (default: a tenth of the optimizer's usual one)").without_default(),
       below_1("warmup", o.warmup, "share of the steps over which the learning rate rises; then it falls to 0"),
       not_negative("weight-decay", o.weight_decay, "on matrices only"),
       not_negative("clip", o.clip, "largest gradient norm; 0: no limit"),
       below_1("dropout", o.dropout, "share of values dropped in training"),
       seed_flag(o.seed, "of the weights, the batches and dropout"),
       threads_flag(o.threads),
       whole("accumulate", o.accumulate, 1, 1000, "batches a step"),
       named("out", o.out, "the name of a folder", "run folder, new or empty (default: runs/<date>-<time>)"),
       named("init", o.init, "the name of a folder",
             "start from a folder of Hugging Face's BERT, or from the folder 'model' of a run"),
       named("resume", o.resume, "the name of a folder",
             "run folder to resume from its checkpoint; the other flags must be those of the run"),
       whole("eval-every", o.eval_every, 1, most_steps, "steps between validations (default: after each epoch)")
           .without_default(),
       text("save-every", save_every, "steps (100) or time (30s, 5m, 1h) between checkpoints; 0: save only at the end"),
       choice("checkpoint", o.checkpoint, {"none", "blocks", "matmul"},
              "activations that are recomputed in backward: none, all of each block, or all but matrix products"),
       size("memory-budget", o.memory_budget, "most memory, such as 4GiB; what is recomputed is chosen for speed"),
       on_off("plan", o.plan, "print what memory the run would take, and train nothing")},
      {{"data", "dummy", ""},
       {"data", "embed", ""},
       {"dummy", "embed", ""},
       {"init", "model", "; --init has the model's sizes"},
       {"steps", "epochs", ""},
       {"out", "resume", "; a resumed run stays in its folder"},
       {"validation", "validation-data", ""},
       {"checkpoint", "memory-budget", "; the budget chooses what to checkpoint"}});
}

}  // namespace

command_line::command_line() : flags(flags_of(o, save_every_)) {}

bool command_line::read(int argc, char** argv) {
  if (!flags.read(argc, argv)) return false;
  if (!o.embed.empty()) {
    if (o.init.empty()) throw gr::bad_flag("--embed is for the model of --init");
    if (o.task.empty()) flags.set("task", "contrastive");
    if (!o.embeds()) throw gr::bad_flag("--embed is for --task cosine or contrastive");
  }
  if (o.files.data.empty() && !o.dummy && !o.plan && o.embed.empty())
    throw gr::bad_flag("--data is required: name a file of labelled texts, or give --dummy");
  if (o.files.tokenizer.empty() && !o.init.empty()) o.files.tokenizer = o.init + "/tokenizer.json";
  if (o.files.tokenizer.empty() && !o.files.data.empty())
    throw gr::bad_flag("--tokenizer is required: name a tokenizer.json");
  gr::check_flag(o.gpu == 0, "--device", "cpu or cuda, without a number: a BERT trains on the first GPU", o.gpu);
  const gpt::pace saves = gpt::read_pace(save_every_);
  o.save_seconds = saves.seconds;
  o.save_steps = saves.steps;
  return true;
}

std::optional<options> read_options(int argc, char** argv, const gr::config_entries& compiled_for, double usual_rate) {
  command_line line;
  for (const auto& [name, value] : compiled_for) line.flags.fix(name, value);
  if (!line.read(argc, argv)) return std::nullopt;
  if (line.o.lr == 0) line.o.lr = usual_rate / 10;
  return std::move(line.o);
}

}  // namespace bert
