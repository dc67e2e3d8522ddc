#pragma once
// What a training run was asked for. No model is known here: `gradus train-bert` reads the same table before it
// compiles one.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include <gradus/io/config_file.hpp>
#include <gradus/optim/learning_rate.hpp>

#include "../flags/flags.hpp"
#include "text_files.hpp"

namespace bert {

namespace gr = gradus;

/// What a run was asked for; options.cpp has the table of flags, with what each of them means.
struct options {
  text_files files;
  bool dummy = false;
  /// What the trainer is compiled for; 0 and empty: not given.
  std::string model, family, task, activation, precision = "fp32", optimizer = "adamw", device = "cpu";
  int layers = 0, heads = 0, width = 0, hidden = 0, positions = 0, vocabulary = 0, segments = 0, first_position = 0,
      embedding = 0, labels = 0, length = 0, batch = 0;
  int gpu = 0;
  double epochs = 3;
  long long steps = 0;  ///< 0: as many as the epochs take
  double lr = 0;        ///< 0: a tenth of the optimizer's usual one
  double warmup = 0.1;  ///< share of the steps
  double weight_decay = 0.01;
  double clip = 1;
  double dropout = 0.1;
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: all cores
  int accumulate = 1;
  std::string out, init, resume;
  long long eval_every = 0;   ///< steps; 0: after each epoch
  double save_seconds = 300;  ///< between checkpoints; 0: not by the clock
  long long save_steps = 0;   ///< between checkpoints; 0: not by steps
  std::string checkpoint = "none", memory_budget;
  bool plan = false;
  /// Settings of the model; 0 and empty: those of --init, or of the family.
  double epsilon = 0;
  std::string pooling;
  bool normalize = false;
  std::string embed;  ///< a file of texts, to print their embeddings and train nothing

  /// Whether the model makes sentence embeddings.
  bool embeds() const { return task == "cosine" || task == "contrastive"; }

  /// The learning rate of a step: it rises over the warm-up, and falls to 0 at the end.
  double rate(long long step, long long of) const {
    const auto total = static_cast<double>(of);
    return gr::warmup_linear{
        .peak = lr, .low = 0, .warmup = std::floor(warmup * total), .total = total}(static_cast<double>(step));
  }
};

/// A command line and what it says.
struct command_line {
  options o;
  gpt::flag_table flags;

  command_line();
  command_line(const command_line&) = delete;  // the table writes to the options
  /// Reads a command line, and checks what needs no model. Throws gr::bad_flag; returns false if --help was asked for
  /// and printed.
  bool read(int argc, char** argv);

 private:
  std::string save_every_ = "5m";
};

/// Reads the command line of a trainer that was compiled for these values of flags; the usual rate is its optimizer's.
/// Throws gr::bad_flag; returns nothing if --help was asked for and printed.
std::optional<options> read_options(int argc, char** argv, const gr::config_entries& compiled_for, double usual_rate);

}  // namespace bert
