// Tokens a second of a model of random parameters that writes behind a prompt, with a key-value cache: one line of
// JSON. The build names the model, GENERATION_MODEL.
//
//   bench_generation [--precision fp32|bf16_mixed] [--batch 1|8] [--prompt 32] [--tokens 64] [--threads 0] [--whole]
//
//   tok_s          tokens a second that are written, all sequences together
//   prompt_tok_s   tokens a second of the prompt, which is taken in 64 at a time
//   whole_tok_s    with --whole: of writing by a pass over the whole context, without a cache
//   read_gb_s      parameters that a step multiplies by, in the type they are multiplied in, over the step's time
//   memory_gb_s    how fast this machine reads as much memory and adds it up
//   peak_mib       the most memory that the process ever held
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradus/generate/token_window.hpp>
#include <gradus/gradus.hpp>

#include "../support/process.hpp"
#include "gpt/model.hpp"
#include "llama/model.hpp"

namespace gr = gradus;
namespace {

namespace models {
[[maybe_unused]] constexpr gpt::config gpt2{12, 12, 768, 1024, 50257};
[[maybe_unused]] constexpr llama::config smollm2{
    // SmolLM2 135M
    .layers = 30, .heads = 9, .width = 576, .context = 1024, .vocabulary = 49152, .kv_heads = 3, .hidden = 1536};
[[maybe_unused]] constexpr llama::config qwen2{
    // Qwen 2.5 0.5B
    .layers = 24,         .heads = 14,   .width = 896,   .context = 1024,
    .vocabulary = 151936, .kv_heads = 2, .hidden = 4864, .family = llama::family_named("qwen2"),
    .biases = 1};
}  // namespace models
#ifndef GENERATION_MODEL
#define GENERATION_MODEL gpt2
#endif
constexpr auto sizes = models::GENERATION_MODEL;
constexpr gr::index_t chunk = 64;

struct options {
  std::string precision = "fp32";
  gr::index_t batch = 1, prompt = 32, tokens = 64;
  int threads = 0;
  bool whole = false;
};

double seconds_of(const auto& what) {
  const double start = bench::now_ms();
  what();
  return 1e-3 * (bench::now_ms() - start);
}

// The best of several: other programs take memory bandwidth for a while.
double memory_gb_s(gr::context<gr::cpu>& ctx, std::size_t bytes) {
  constexpr gr::index_t part = 1 << 16, lanes = gr::lanes<float>;
  std::vector<float> numbers(bytes / sizeof(float) / part * part, 1.0f), sums(numbers.size() / part);
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const double s = seconds_of([&] {
      gr::cpu_kit::parallel_tasks(ctx, sums.size(), [&](gr::index_t t) {
        gr::pack<float> sum[8];
        for (auto& x : sum) x = gr::pack<float>(0);
        for (gr::index_t j = 0; j < part; j += 8 * lanes)
          for (gr::index_t k = 0; k < 8; ++k)
            sum[k] = sum[k] + gr::pack<float>::load(numbers.data() + t * part + j + k * lanes);
        for (gr::index_t k = 1; k < 8; ++k) sum[0] = sum[0] + sum[k];
        sums[t] = gr::sum_lanes(sum[0]);
      });
    });
    best = std::max(best, 1e-9 * static_cast<double>(numbers.size() * sizeof(float)) / s);
  }
  if (std::count(sums.begin(), sums.end(), static_cast<float>(part)) != static_cast<std::ptrdiff_t>(sums.size()))
    std::fprintf(stderr, "bench_generation: wrong sums\n"), std::exit(1);
  return best;
}

template <class Precision, gr::index_t Batch>
void measure(const options& o) {
  using X = gr::on<gr::cpu, gr::precision_with<Precision, gr::keep_copies>>;
  gr::stream stream;
  if (o.threads > 0) gr::set_thread_count(stream, o.threads);
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
  gpt::model_of<X, sizes> net;
  gr::init(net, ctx, gr::normal_init{.seed = 1});
  double bytes_read = 0;  // of the matrices
  gr::for_each_param(net, [&]<class P>(std::string_view name, const P&) {
    if (P::shape::rank == 2 && name != "positions")
      bytes_read += static_cast<double>(P::shape::size * sizeof(typename X::compute));
  });
  typename gpt::model_of<X, sizes>::template cache<Batch> past{ctx};
  gr::token_sampler sampler{{.temperature = 0}};
  std::array<std::int32_t, Batch> last{};
  const std::span<const std::int32_t> nothing;

  const auto take_in = [&]<gr::index_t Times>(std::integral_constant<gr::index_t, Times>,
                                              const std::vector<std::int32_t>& ids, gr::index_t count) {
    const auto logits =
        gr::next_logits(net, gr::from_host<std::int32_t, gr::shape<Batch, Times>>(ctx, ids.data()), past, count);
    for (gr::index_t b = 0; b < Batch; ++b)
      last[b] = static_cast<std::int32_t>(
          sampler.choose(logits.values().subspan(b * sizes.padded_vocabulary(), sizes.vocabulary), nothing, 0));
  };
  const auto read_prompt = [&] {
    past.rewind(0);
    for (gr::index_t p = 0; p < o.prompt; p += chunk) {
      std::vector<std::int32_t> ids(Batch * chunk);
      for (gr::index_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int32_t>((p * 31 + i * 97) % sizes.vocabulary);
      take_in(std::integral_constant<gr::index_t, chunk>{}, ids, std::min(chunk, o.prompt - p));
    }
  };
  const auto write = [&] { take_in(std::integral_constant<gr::index_t, 1>{}, {last.begin(), last.end()}, 1); };

  read_prompt();  // makes copies of parameters and fills the pool
  write();
  const double reading = seconds_of(read_prompt);
  const double writing = seconds_of([&] {
    for (gr::index_t i = 0; i < o.tokens; ++i) write();
  });
  const auto steps = static_cast<double>(o.tokens);
  double whole_tok_s = 0;
  if constexpr (Batch == 1) {
    if (o.whole) {
      const auto ids = gr::zeros<std::int32_t, gr::shape<1, sizes.context>>(ctx);
      whole_tok_s = 1 / seconds_of([&] { net(ids); });
    }
  }
  std::printf(
      "{\"tok_s\": %.2f, \"prompt_tok_s\": %.2f, \"whole_tok_s\": %.3f, \"read_gb_s\": %.2f, \"memory_gb_s\": %.2f, "
      "\"peak_mib\": %.1f}\n",
      steps * Batch / writing, static_cast<double>(o.prompt * Batch) / reading, whole_tok_s,
      1e-9 * bytes_read * steps / writing, memory_gb_s(ctx, static_cast<std::size_t>(bytes_read)),
      bench::status_bytes("VmHWM") / (1 << 20));
}

template <class Precision>
void measure(const options& o) {
  if (o.batch == 1) measure<Precision, 1>(o);
  else measure<Precision, 8>(o);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_generation: %s\n", what.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--whole") {
      o.whole = true;
      continue;
    }
    if (++i == argc) fail(flag + " needs a value");
    const std::string value = argv[i];
    if (flag == "--precision") {
      o.precision = value;
      continue;
    }
    const long long number = std::atoll(value.c_str());
    if (number < 0 || number > 1024) fail(flag + " must be 0 to 1024, not " + value);
    if (flag == "--batch") o.batch = static_cast<gr::index_t>(number);
    else if (flag == "--prompt") o.prompt = static_cast<gr::index_t>(number);
    else if (flag == "--tokens") o.tokens = static_cast<gr::index_t>(number);
    else if (flag == "--threads") o.threads = static_cast<int>(number);
    else fail("no flag " + flag);
  }
  if (o.batch != 1 && o.batch != 8) fail("--batch must be 1 or 8, for which it is compiled");
  if (o.prompt == 0 || o.tokens == 0 || o.prompt + o.tokens >= sizes.context)
    fail("--prompt and --tokens must be 1 at least, and below 1024 together");
  if (o.precision == "fp32") measure<gr::fp32>(o);
  else if (o.precision == "bf16_mixed") measure<gr::bf16_mixed>(o);
  else fail("--precision must be fp32 or bf16_mixed, not " + o.precision);
}
