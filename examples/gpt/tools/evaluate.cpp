// Measures how well a model that gpt_train saved predicts a text. Compiled for the model's sizes, like the trainer.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gradus/cpu/processors.hpp>
#include <gradus/data/dataset.hpp>
#include <gradus/io/text_file.hpp>

#include "../model_file.hpp"
#include "evaluate.hpp"
#include "tool_flags.hpp"

namespace gr = gradus;

int main(int argc, char** argv) {
  return gr::run_program("gpt_evaluate", [&] {
    gpt::evaluate_options o;
    gpt::flag_table flags = o.table();
    flags.fix("device", gpt::device_name);
    if (!flags.read(argc, argv)) return 0;

    gr::stream stream;
    if (o.threads > 0) gr::set_thread_count(stream, std::min(o.threads, gr::cpu_kit::usable_processors()));
    gr::host_resource heap;
    gr::pool_resource pool(heap);
    gr::context ctx{stream, pool};
    const std::string tokenizer = o.tokenizer.empty() ? gpt::tokenizer_beside(o.model) : o.tokenizer;
    const gr::text_tokenizer words = gpt::read_text_tokenizer(tokenizer);
    std::string text;
    for (const std::string& path : o.data) {
      if (!text.empty() && text.back() != '\n') text += '\n';
      if (gr::dataset::is_shard(path))
        throw gr::error(path + ": is named as tokens are (*.bin); name the text that they were made of");
      text += gr::read_text(path);
    }
    const std::vector<std::int32_t> tokens = words.encode(text);
    if (tokens.size() < 2) throw gr::error(o.data.front() + ": is too short: a text must have two tokens at least");
    gpt::network net;
    if (o.adapter.empty()) gpt::load_model(net, ctx, o.model);
    else gpt::load_model(net, ctx, o.adapter, o.model);

    const gpt::evaluation found = gpt::evaluate<gpt::batch_size>(net, ctx, tokens);
    std::printf("%zu tokens, %zu of them predicted: loss %.4f nats a token, perplexity %.4f", tokens.size(),
                found.predicted, found.loss(), found.perplexity());
    if (!tokenizer.empty())
      std::printf("; %zu bytes: %.4f nats a byte", text.size(), found.nats / static_cast<double>(text.size()));
    std::printf("\n");
    return 0;
  });
}
