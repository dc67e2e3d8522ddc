// Writes text with a model that gpt_train saved. Compiled for the model's sizes, like the trainer.

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "flags.hpp"
#include "generate.hpp"
#include "model_file.hpp"

namespace gr = gradus;

int main(int argc, char** argv) {
  return gpt::run_program("gpt_sample", [&] {
    std::string path;
    std::string prompt = "\n";
    int count = 400;
    int threads = 0;
    gpt::sampling how;
    CLI::App app{"Writes text with a trained GPT."};
    app.add_option("model", path, "model.safetensors of a run")->required();
    app.add_option("--prompt", prompt, "what the text begins with");
    gpt::add_whole_number(app, "--count", count, 1, gpt::most_bytes, "bytes to write")->capture_default_str();
    app.add_option("--temperature", how.temperature, "0: always the likeliest byte; 1: the model's own odds")
        ->capture_default_str();
    gpt::add_whole_number(app, "--top-k", how.top_k, 0, std::numeric_limits<int>::max(),
                          "choose among this many bytes; 0: among all")
        ->capture_default_str();
    gpt::add_whole_number(app, "--seed", how.seed, 0, gpt::most_seed, "another seed, another text")
        ->capture_default_str();
    gpt::add_whole_number(app, "--threads", threads, 0, gpt::most_threads, "threads; 0: one a core")
        ->capture_default_str();
    if (!gpt::read_flags(app, argc, argv)) return 0;
    gpt::check_flag(how.temperature >= 0 && std::isfinite(how.temperature), "--temperature", "0 or more",
                    how.temperature);

    gr::stream stream;
    if (threads > 0) gr::set_thread_count(stream, threads);
    gr::host_resource heap;
    gr::pool_resource pool(heap);
    gr::context ctx{stream, pool};
    gpt::network net;
    gpt::load_model(net, ctx, path);
    std::fputs(prompt.c_str(), stdout);
    const auto logits_of = [&](const gpt::token* window) {
      using ids = gr::shape<1, gpt::sizes.context>;
      return net(gr::from_host<gpt::token, ids>(ctx, window, gr::category::input));
    };
    gpt::generate(logits_of, prompt, count, how, [](char c) {
      std::putchar(c);
      return std::fflush(stdout) == 0;
    });
    std::putchar('\n');
    return 0;
  });
}
