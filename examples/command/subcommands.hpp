#pragma once
// The subcommands. Each reads its command line, checks what can be checked without a model, compiles what it needs for
// the model and becomes that program. Messages of gr::bad_flag and gr::error name what was wrong.

#include <filesystem>

#include "process.hpp"

namespace command {

/// What a subcommand has besides its words.
struct surroundings {
  std::filesystem::path project;
  launched_job job;
};

int train(int argc, char** argv, const surroundings& here);
int train_bert(int argc, char** argv, const surroundings& here);
int sample(int argc, char** argv, const surroundings& here);
int evaluate(int argc, char** argv, const surroundings& here);
int convert(int argc, char** argv, const surroundings& here);
int tokens(int argc, char** argv, const surroundings& here);

}  // namespace command
