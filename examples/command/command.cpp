// The command `gradus`: trains models and uses them. It knows no model itself; it compiles a program for the sizes that
// are asked for, and becomes that program.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include <gradus/core/version.hpp>
#include <gradus/run/program.hpp>

#include "build.hpp"
#include "subcommands.hpp"

namespace {

namespace gr = gradus;

struct subcommand {
  const char* name;
  int (*call)(int, char**, const command::surroundings&);
  const char* text;
};
constexpr std::array subcommands{
    subcommand{"train", command::train, "train a GPT or a Llama on text; --plan: say what memory that takes"},
    subcommand{"train-bert", command::train_bert,
               "train a BERT, or another encoder, to classify texts or to embed sentences"},
    subcommand{"sample", command::sample, "write text with a trained model"},
    subcommand{"evaluate", command::evaluate, "measure how well a trained model predicts a text"},
    subcommand{"convert", command::convert,
               "turn a model into a folder of Hugging Face's, or such a folder into a model"},
    subcommand{"tokens", command::tokens, "make token shards from text"}};

void print_help() {
  std::puts("usage: gradus SUBCOMMAND ...; gradus SUBCOMMAND --help lists its flags; gradus --version\n");
  for (const subcommand& s : subcommands) std::printf("  %-12s%s\n", s.name, s.text);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "--help";
  const auto chosen =
      std::ranges::find(subcommands, name, [](const subcommand& s) { return std::string_view(s.name); });
  const std::string program = chosen == subcommands.end() ? "gradus" : "gradus " + std::string(name);
  return gr::run_program(program.c_str(), [&] {
    if (name == "--help" || name == "-h") {
      print_help();
      return 0;
    }
    if (name == "--version") {
      std::printf("gradus %s\n", gr::version().data());
      return 0;
    }
    if (chosen == subcommands.end())
      throw gr::bad_flag("there is no subcommand '" + std::string(name) + "'; gradus --help lists them");
    const command::launched_job job = command::find_job();
    try {
      std::string own = program;
      argv[1] = own.data();
      return chosen->call(argc - 1, argv + 1, {command::project_folder(argv[0]), job});
    } catch (...) {
      // Of several processes the first one says what is wrong; another one waits, and is ended if that one has failed.
      if (!job.leads()) sleep(3);
      throw;
    }
  });
}
