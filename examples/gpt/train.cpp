// Trains a GPT on text, byte by byte. Read main from top to bottom; the model is in model.hpp, its sizes in config.hpp.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include <gradus/data/tokens.hpp>

#include "generate.hpp"
#include "interrupt.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "report.hpp"
#include "speed.hpp"

namespace {

namespace gr = gradus;
using gr::byte_tokenizer;
using ids = gr::shape<gpt::batch_size, gpt::sizes.context>;

auto upload(gr::context<gr::cpu>& ctx, const std::vector<byte_tokenizer::token>& tokens) {
  return gr::from_host<byte_tokenizer::token, ids>(ctx, tokens.data(), gr::category::input);
}

/// Mean loss over about `tokens` tokens, in windows spread evenly over the text. Plain tensors: nothing is recorded, and dropout is off.
double validation_loss(const gpt::network& net, gr::context<gr::cpu>& ctx, std::span<const byte_tokenizer::token> text,
                       std::size_t tokens) {
  const std::size_t batches = std::max<std::size_t>(tokens / ids::size, 1);
  double sum = 0;
  for (std::size_t part = 0; part < batches; ++part) {
    const auto batch = gr::spread_windows<gpt::batch_size, gpt::sizes.context>(text, part, batches);
    sum += static_cast<double>(gr::item(net.loss(upload(ctx, batch.inputs), upload(ctx, batch.targets))));
  }
  return sum / static_cast<double>(batches);
}

int train(const gpt::options& o) {
  const gpt::interrupts stop;
  if (o.threads > 0) gr::set_thread_count(o.threads);

  // The text, as bytes.
  const auto text = byte_tokenizer::encode(gr::read_texts(o.data));
  gr::token_split<byte_tokenizer::token> part;
  try {
    part = gr::split_tokens(std::span(text), gpt::sizes.context);
  } catch (const gr::error& e) {
    throw gr::error(o.data.front() + (o.data.size() > 1 ? " and the others: " : ": ") + e.what());
  }

  // The model and what trains it.
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::stats_resource memory(pool);
  gr::context ctx{stream, memory};
  gpt::network net;
  net.dropout = o.dropout;
  gr::init(net, ctx, gr::normal_init{.seed = o.seed, .stddev = 0.02});
  gr::adamw optimizer{net, {.lr = o.lr, .weight_decay = o.weight_decay}};
  gr::tape tape{ctx, o.seed};
  const gr::warmup_cosine schedule{.peak = o.lr, .low = 0.05 * o.lr, .warmup = 0, .total = 1};

  // The run folder.
  const double machine_flops = gpt::machine_flops();
  const std::size_t parameters = gr::parameter_count(net);
  const auto folder = gpt::make_run_folder(o.out);
  gpt::reporter report(folder, machine_flops);
  report.log().write({{"model", "gpt"},
                      {"layers", gpt::sizes.layers},
                      {"heads", gpt::sizes.heads},
                      {"width", gpt::sizes.width},
                      {"context", gpt::sizes.context},
                      {"vocabulary", gpt::sizes.vocabulary},
                      {"batch", gpt::batch_size},
                      {"parameters", parameters},
                      {"accumulate", o.accumulate},
                      {"lr", o.lr},
                      {"seed", o.seed},
                      {"threads", gr::thread_count()},
                      {"gemm_tflops", machine_flops / 1e12}});
  char line[256];
  std::snprintf(line, sizeof line,
                "gpt: %.2fM parameters, %zu layers, width %zu, %zu heads, context %zu, batch %zu; %.2f MB of text",
                static_cast<double>(parameters) / 1e6, gpt::sizes.layers, gpt::sizes.width, gpt::sizes.heads,
                gpt::sizes.context, gpt::batch_size * static_cast<std::size_t>(o.accumulate),
                static_cast<double>(text.size()) / 1e6);
  report.line(line);
  std::snprintf(line, sizeof line, "machine: %d threads, %.3f TFLOP/s in the model's matrix products; run folder %s",
                gr::thread_count(), machine_flops / 1e12, folder.c_str());
  report.line(line);

  // Training.
  const double flops_per_token = gpt::training_flops_per_token(parameters);
  const gpt::stopwatch run;
  double training_seconds = 0;
  gpt::step_report now;
  bool done = false;
  for (std::uint32_t step = 0; !done; ++step) {
    const gpt::stopwatch watch;
    // How much of the run is behind us, by steps or by the clock, whichever is further.
    if (o.steps > 0) now.fraction = static_cast<double>(step) / static_cast<double>(o.steps);
    if (o.minutes > 0) now.fraction = std::max(now.fraction, run.seconds() / (60 * o.minutes));
    // The rate rises over --warmup steps, or over the first tenth of a run that is shorter than that.
    const double risen = std::max((step + 1.0) / static_cast<double>(std::max(o.warmup, 1LL)), 10 * now.fraction);
    now.lr = std::min(1.0, risen) * schedule(now.fraction);

    now.loss = 0;
    for (int i = 0; i < o.accumulate; ++i) {
      const auto batch = gr::random_windows<gpt::batch_size, gpt::sizes.context>(part.train, o.seed, step,
                                                                                 static_cast<std::uint32_t>(i));
      const auto loss = net.loss(tape.watch(upload(ctx, batch.inputs)), upload(ctx, batch.targets));
      now.loss += static_cast<double>(gr::item(loss.value())) / o.accumulate;
      gr::backward(loss, 1.0f / static_cast<float>(o.accumulate));
    }
    if (!std::isfinite(now.loss))
      throw gr::error("the loss is no longer finite at step " + std::to_string(step + 1) + "; try a lower --lr");
    if (o.clip > 0) optimizer.clip(ctx, o.clip);
    optimizer.options.lr = now.lr;
    optimizer.step(ctx);

    training_seconds += watch.seconds();
    now.step = step + 1;
    now.tokens += static_cast<double>(ids::size) * o.accumulate;
    now.tokens_per_second = now.tokens / training_seconds;
    now.flops = flops_per_token * now.tokens_per_second;
    done = stop.noticed() || (o.steps > 0 && now.step >= o.steps) || (o.minutes > 0 && run.seconds() >= 60 * o.minutes);
    const bool evaluate = done || now.step % o.eval_every == 0;
    now.validation = evaluate ? validation_loss(net, ctx, part.validation, done ? 32768 : 8192) : std::nan("");
    now.elapsed = run.seconds();
    report.step(now);
  }

  // The model, and what it writes.
  if (o.save) {
    gpt::save_model(net, folder / "model.safetensors");
    report.line("saved " + (folder / "model.safetensors").string());
  }
  std::snprintf(line, sizeof line, "validation loss %.4f nats a byte after %lld steps; peak memory %.0f MiB",
                now.validation, now.step, static_cast<double>(memory.all().peak) / (1 << 20));
  report.line(line);
  if (o.sample > 0 && !stop.noticed()) {
    report.line("a sample:");
    gpt::generate(net, ctx, "\n", o.sample, {.seed = o.seed}, [&](char c) {
      std::putchar(c);
      std::fflush(stdout);
      return !stop.noticed();
    });
    std::putchar('\n');
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return gpt::run_program("gpt_train", [&] {
    const auto o = gpt::read_options(argc, argv, "Trains a GPT on text, byte by byte.");
    return o ? train(*o) : 0;
  });
}
