// Measures how well a model that gpt_train saved predicts a text. Compiled for the model's sizes, like the trainer.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gradus/cpu/processors.hpp>
#include <gradus/data/dataset.hpp>
#include <gradus/io/text_file.hpp>

#include "../../flags/flags.hpp"
#include "../model_file.hpp"
#include "evaluate.hpp"

namespace gr = gradus;

int main(int argc, char** argv) {
  return gr::run_program("gpt_evaluate", [&] {
    std::string model, tokenizer, adapter;
    std::vector<std::string> data;
    int threads = 0;
    gpt::flag_table flags(
        "Measures how well a trained GPT predicts a text.",
        {gpt::positional("model", model, "model.safetensors of a run"),
         gpt::text("adapter", adapter, "adapters of that model: the model.safetensors of a run, or a folder of PEFT's"),
         gpt::texts("data", data, "text files, which are read one after another").required(),
         gpt::text("tokenizer", tokenizer,
                   "tokenizer.json (default: the one beside the model; without one, tokens are bytes)"),
         gpt::threads_flag(threads)});
    if (!flags.read(argc, argv)) return 0;

    gr::stream stream;
    if (threads > 0) gr::set_thread_count(stream, std::min(threads, gr::cpu_kit::usable_processors()));
    gr::host_resource heap;
    gr::pool_resource pool(heap);
    gr::context ctx{stream, pool};
    if (tokenizer.empty()) tokenizer = gpt::tokenizer_beside(model);
    const gr::text_tokenizer words = gpt::read_text_tokenizer(tokenizer);
    std::string text;
    for (const std::string& path : data) {
      if (!text.empty() && text.back() != '\n') text += '\n';
      if (gr::dataset::is_shard(path))
        throw gr::error(path + ": is named as tokens are (*.bin); name the text that they were made of");
      text += gr::read_text(path);
    }
    const std::vector<std::int32_t> tokens = words.encode(text);
    if (tokens.size() < 2) throw gr::error(data.front() + ": is too short: a text must have two tokens at least");
    gpt::network net;
    if (adapter.empty()) gpt::load_model(net, ctx, model);
    else gpt::load_model(net, ctx, adapter, model);

    const gpt::evaluation found = gpt::evaluate<gpt::batch_size>(net, ctx, tokens);
    std::printf("%zu tokens, %zu of them predicted: loss %.4f nats a token, perplexity %.4f", tokens.size(),
                found.predicted, found.loss(), found.perplexity());
    if (!tokenizer.empty())
      std::printf("; %zu bytes: %.4f nats a byte", text.size(), found.nats / static_cast<double>(text.size()));
    std::printf("\n");
    return 0;
  });
}
