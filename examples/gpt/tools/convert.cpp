// Turns a model of gpt_train into a folder of Hugging Face's, and such a folder into a model. Compiled for the model's
// sizes.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "../../flags/flags.hpp"
#include "../../llama/huggingface.hpp"
#include "../model_file.hpp"
#include "huggingface.hpp"
#include "unfinished_folder.hpp"

namespace gr = gradus;

namespace {

// The tokenizer in a file, or where none is named that beside the model; without one, the tokens of a model of 256 are
// bytes.
std::optional<gr::tokenizer> tokenizer_of(const std::string& model, std::string file) {
  if (file.empty()) file = gpt::tokenizer_beside(model);
  if (!file.empty()) return gpt::read_model_tokenizer(file);
  if (gpt::sizes.vocabulary == gr::byte_tokenizer::vocabulary) return gr::byte_level_tokenizer();
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  return gr::run_program("gpt_convert", [&] {
    std::string from, to, out, tokenizer;
    gpt::flag_table flags(
        "Converts a model between the files of gpt_train and the folders of Hugging Face's transformers.",
        {gpt::text("from-huggingface", from, "a folder with config.json and model.safetensors (or its index)"),
         gpt::text("to-huggingface", to, "a model.safetensors of gpt_train"),
         gpt::named("out", out, "the name of a file or folder",
                    "what to write: model.safetensors, or a folder for Hugging Face; it must not exist yet")
             .required(),
         gpt::text("tokenizer", tokenizer,
                   "tokenizer.json for the folder of --to-huggingface (default: the one beside the model)")});
    if (!flags.read(argc, argv)) return 0;
    if (flags.given("from-huggingface") == flags.given("to-huggingface"))
      throw gr::bad_flag("give one of --from-huggingface FOLDER and --to-huggingface MODEL");
    if (flags.given("tokenizer") && !flags.given("to-huggingface"))
      throw gr::bad_flag("--tokenizer is for --to-huggingface; a model.safetensors has none in it");

    gr::stream stream;
    gr::host_resource heap;
    gr::context ctx{stream, heap};
    gpt::network net;
    if (flags.given("to-huggingface")) {
      gpt::load_model(net, ctx, to);
      const std::optional<gr::tokenizer> words = tokenizer_of(to, tokenizer);
      gpt::unfinished_folder folder(out);
      save_huggingface(net, folder.path(), words ? &*words : nullptr);
      folder.finish();
      if (!words) std::puts("without a tokenizer: there is no tokenizer.json beside the model; --tokenizer names one");
    } else {
      std::error_code problem;
      if (std::filesystem::exists(out, problem)) throw gr::error(out + ": is there already; name a new file");
      load_huggingface(net, ctx, from);
      gpt::save_model(net, out);
    }
    std::printf("wrote %s: %s\n", out.c_str(), gpt::describe_model().c_str());
    return 0;
  });
}
