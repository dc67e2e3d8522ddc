// Lesson 11: a run that can be interrupted. A network learns to read noisy digits in a gr::run, as a GPT does in the
// trainer: log, curves, checkpoints, validation. Batches are made ahead on a thread, and a profile says what takes
// time. Stop it with Ctrl-C and start it again: it resumes.

#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <gradus/data/prefetch.hpp>
#include <gradus/gradus.hpp>
#include <gradus/report/profile.hpp>
#include <gradus/run/interrupts.hpp>
#include <gradus/run/run.hpp>
#include <vector>

namespace gr = gradus;

constexpr gr::index_t pictures = 64, side = 12, pixels = side * side;

// Seven rows of five dots for each digit.
constexpr unsigned char font[10][7] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},    {14, 17, 1, 6, 8, 16, 31},  {30, 1, 1, 14, 1, 1, 30},
    {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14}, {6, 8, 16, 30, 17, 17, 14}, {31, 1, 2, 4, 8, 8, 8},
    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12}};
struct batch {
  std::vector<float> images = std::vector<float>(pictures * pixels);
  std::vector<std::int32_t> digits = std::vector<std::int32_t>(pictures);
};
// Batch `number`: digits at random places, under noise. It depends on the number only, so any thread may make it.
batch draw(std::uint64_t number) {
  batch b;
  for (gr::index_t p = 0; p < pictures; ++p) {
    const gr::random_key key{.seed = number, .step = static_cast<std::uint32_t>(p)};
    const auto words = key.words(0);
    b.digits[p] = static_cast<std::int32_t>(words[0] % 10);
    const gr::index_t left = words[1] % (side - 4), top = words[2] % (side - 6);
    for (gr::index_t y = 0; y < side; ++y)
      for (gr::index_t x = 0; x < side; ++x) {
        const bool inside = x >= left && x < left + 5 && y >= top && y < top + 7;
        const bool ink = inside && (font[words[0] % 10][y - top] >> (left + 4 - x) & 1) != 0;
        const float noise = gr::uniform_float(key.words(1 + y * side + x)[0]);
        b.images[p * pixels + y * side + x] = (ink ? 1.0f : 0.0f) + noise - 0.5f;
      }
  }
  return b;
}

struct reader {
  using X = gr::on<gr::cpu>;
  gr::nn::linear<X, pixels, 128> first;
  gr::nn::linear<X, 128, 64> second;
  gr::nn::linear<X, 64, 10> last;
  GRADUS_MEMBERS(first, second, last)
  auto operator()(const auto& images) const { return last(gr::gelu(second(gr::gelu(first(images))))); }
};

std::atomic<long long> interrupted_at = 0;

int train(const std::string& folder) {
  const bool started = std::filesystem::exists(gr::checkpoint_path(folder));
  const gr::interrupts<interrupted_at> watched;
  gr::run run({.names = {.program = "11_digits", .title = "Reading digits", .unit = "picture"},
               .out = folder,
               .resume = started ? folder : "",
               .steps = 4000,
               .units_per_step = pictures,
               .eval_every = 500,
               .save_seconds = 10,
               .model = ""},
              /*identity=*/{}, [] { return interrupted_at != 0; });
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  reader net;
  gr::init(net, ctx, gr::he_normal{.seed = 1});
  gr::adamw optimizer{net, {.lr = 1e-3}};
  gr::resumable_model saved(ctx, net, optimizer);
  run.begin(saved);
  gr::prefetcher batches(draw, {.first = static_cast<std::uint64_t>(run.state.step)});
  gr::profiler profile;
  gr::tape tape{ctx};
  const auto forward = [&](const batch& b, const auto& watch) {
    const auto images = gr::from_host<float, gr::shape<pictures, pixels>>(ctx, b.images.data());
    return gr::cross_entropy(net(watch(images)),
                             gr::from_host<std::int32_t, gr::shape<pictures>>(ctx, b.digits.data()));
  };
  const auto unseen = [&] { return gr::item(forward(draw(1u << 31), [](const auto& x) { return x; })); };
  ctx.observe(&profile);
  try {
    while (run.next()) {
      const gr::stopwatch watch;
      const auto loss = forward(batches.next(), [&](const auto& x) { return tape.watch(x); });
      gr::backward(loss);
      run.wait_for_checkpoint();  // one being written reads what the update changes
      optimizer.step(ctx);
      profile.add_step(watch.seconds());
      run.step_done({.loss = gr::item(loss.value())});
      if (run.due()) run.validated(gr::validation{.loss = unseen()});
      run.save_and_show();
    }
  } catch (const std::exception& e) {
    run.save_after(e);
    throw;
  }
  run.end();
  if (profile.steps() > 0) run.line(gr::profile_table(profile));
  const double cost = unseen();
  std::printf("a digit it has not seen costs %.3f nats; without learning %.3f\n", cost, std::log(10.0));
  return !run.over() || cost < 0.5 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "runs/digits");
  } catch (const gr::error& e) {
    std::fprintf(stderr, "11_digits: %s\n", e.what());
    return 1;
  }
}
