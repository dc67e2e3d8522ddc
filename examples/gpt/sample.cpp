// Writes text with a model that gpt_train saved. Compiled for the model's sizes, like the trainer.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/generate/stop_text.hpp>

#include "device_flag.hpp"
#include "flags.hpp"
#include "generate.hpp"
#include "model_file.hpp"
#include "speed.hpp"
#include "vocabulary.hpp"

namespace gr = gradus;

namespace {

// A token reads each weight once, so copies in the type of products pay.
using policy = std::conditional_t<gpt::on_gpu, gpt::precision, gpt::host_precision>;
using X = gr::on<gpt::device, gr::precision_with<policy, gr::keep_copies>>;

struct options {
  std::string model, prompt, tokenizer;
  std::vector<std::string> stop;
  int count = 400, samples = 1, threads = 0, gpu = 0;
  bool speed = false;
  gpt::sampling how;
};

/// Reads the command line. Throws bad_flag; returns false where --help was asked for and printed.
bool read_options(options& o, int argc, char** argv) {
  CLI::App app{"Writes text with a trained GPT."};
  app.add_option("model", o.model, "model.safetensors of a run")->required();
  app.add_option("--prompt", o.prompt, "what the text begins with; -: what standard input holds");
  gpt::add_whole_number(app, "--count", o.count, 1, gpt::most_bytes,
                        "tokens to write, which are bytes without a tokenizer")
      ->capture_default_str();
  gpt::add_whole_number(app, "--samples", o.samples, 1, gpt::most_bytes, "texts to write, eight at a time")
      ->capture_default_str();
  auto& rule = o.how.rule;
  gpt::add_number(app, "--temperature", rule.temperature, "0 or more", gpt::is_not_negative,
                  "0: always the likeliest token; 1: the model's own odds")
      ->capture_default_str();
  gpt::add_whole_number(app, "--top-k", rule.top_k, 0, static_cast<std::size_t>(std::numeric_limits<int>::max()),
                        "choose among this many tokens; 0: among all")
      ->capture_default_str();
  gpt::add_number(
      app, "--top-p", rule.top_p, "above 0 and at most 1", [](double x) { return x > 0 && x <= 1; },
      "choose among the fewest tokens whose probabilities add up to this; 1: among all")
      ->capture_default_str();
  gpt::add_number(app, "--repetition-penalty", rule.repetition_penalty, "above 0", gpt::is_positive,
                  "above 1, tokens that the model sees already become less likely")
      ->capture_default_str();
  app.add_option("--stop", o.stop, "end before this text; may be given several times")->expected(1)->take_all();
  gpt::add_whole_number(app, "--seed", o.how.seed, 0, gpt::most_seed, "another seed, another text")
      ->capture_default_str();
  app.add_option("--tokenizer", o.tokenizer,
                 "tokenizer.json (default: the one beside the model; without one, tokens are bytes)");
  app.add_flag("--speed", o.speed, "say on stderr how many tokens a second were written");
  gpt::add_whole_number(app, "--threads", o.threads, 0, gpt::most_threads, "threads; 0: one a core")
      ->capture_default_str();
  gpt::add_device(app, o.gpu);
  if (!gpt::read_flags(app, argc, argv)) return false;
  for (const std::string& text : o.stop) gpt::check_flag(!text.empty(), "--stop", "a text", "''");
  return true;
}

std::string standard_input() {
  std::string text;
  char block[1 << 14];
  while (const std::size_t got = std::fread(block, 1, sizeof block, stdin)) text.append(block, got);
  if (std::ferror(stdin) != 0) throw gr::error("--prompt -: standard input cannot be read");
  if (text.empty()) throw gr::error("--prompt -: standard input is empty");
  return text;
}

/// Prints, and says whether somebody reads. A reader that has seen enough ends the program well; anything else that
/// keeps it from writing is an error, which run_program tells.
bool print(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return true;
  if (errno == EPIPE && std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
  return false;
}

/// Where texts go: all their bytes to a file or another program, and to a terminal what it can show.
class text_output {
 public:
  bool add(std::string_view text) { return print(terminal_ ? shown_.add(text) : std::string(text)); }
  bool end_line() { return print((terminal_ ? shown_.finish() : "") + "\n"); }

 private:
  bool terminal_ = gr::output_is_a_terminal();
  gr::printable_text shown_;
};

using seconds = std::chrono::duration<double>;
using timer = std::chrono::steady_clock;

// Texts that are written together: each takes little longer than one by itself, because a step reads the parameters
// once.
constexpr gr::index_t texts_together = 8;

class text_writer {
 public:
  text_writer(const options& o, const gpt::vocabulary& words, const std::string& prompt)
      : o_(o), words_(words), prompt_(prompt), sampler_(o.how.rule) {}

  /// Writes `count` texts from number `first` on, whose prompt is in the window. They are printed one after another:
  /// the first that is not finished as it comes. Returns false where nobody reads any more.
  template <class Window>
  bool write(Window& window, std::uint32_t first, std::size_t count) {
    std::vector<text> texts(count, text{gr::stop_text_finder(o_.stop), {}, false});
    std::uint32_t shown = 0;
    if (!begin(first)) return false;
    for (int i = 0; i < o_.count; ++i) {
      typename Window::ids next{};  // what a finished text goes on with nobody sees
      for (std::uint32_t k = 0; k < count; ++k) {
        text& t = texts[k];
        if (t.finished) continue;
        next[k] = static_cast<std::int32_t>(sampler_.choose(window.logits(k).first(words_.size()), window.tokens(k),
                                                            o_.how.draw(static_cast<std::uint32_t>(i), first + k)));
        ++written_;
        const bool ends = words_.ends_text(next[k]);
        if (!ends) t.unseen += t.stop.add(words_.text_of(next[k]));
        t.finished = ends || t.stop.found() || i + 1 == o_.count;
        if (t.finished) t.unseen += t.stop.finish();
      }
      for (; shown < count; ++shown) {
        if (!out_.add(std::exchange(texts[shown].unseen, {}))) return false;
        if (!texts[shown].finished) break;
        if (!out_.end_line() || (shown + 1 < count && !begin(first + shown + 1))) return false;
      }
      if (shown == count) break;
      window.add(next);
    }
    return true;
  }
  /// Tokens.
  std::int64_t written() const { return written_; }

 private:
  struct text {
    gr::stop_text_finder stop;
    std::string unseen;
    bool finished;
  };

  bool begin(std::uint32_t number) {
    if (number > 0 && !print("--- " + std::to_string(number + 1) + "\n")) return false;
    return out_.add(prompt_.empty() && words_.bytes() ? "\n" : prompt_);
  }

  const options& o_;
  const gpt::vocabulary& words_;
  const std::string& prompt_;
  gr::token_sampler sampler_;
  std::int64_t written_ = 0;
  text_output out_;
};

int write_texts(const options& o) {
  gpt::use_gpu(o.gpu);
  gpt::stream stream;
  gpt::set_threads(stream, o.threads);
  gpt::device_heap heap;
  gr::basic_pool_resource<gpt::stream> pool(heap);
  gr::context<gpt::device> ctx(stream, pool);
  const gpt::vocabulary words(o.tokenizer.empty() ? gpt::tokenizer_beside(o.model) : o.tokenizer);
  const std::string begins = o.prompt == "-" ? standard_input() : o.prompt;
  const std::vector<std::int32_t> prompt = words.encode(begins);
  gpt::model<X, gpt::sizes> net;
  gpt::load_model(net, ctx, o.model);
  gpt::token_window<X, gpt::sizes> window(net, ctx);

  const auto start = timer::now();
  window.begin(prompt);
  const seconds reading = timer::now() - start;
  text_writer writer(o, words, begins);
  std::optional<gpt::token_window<X, gpt::sizes, texts_together>> together;
  const auto began = timer::now();
  for (std::uint32_t first = 0; first < static_cast<std::uint32_t>(o.samples);) {
    const std::uint32_t left = static_cast<std::uint32_t>(o.samples) - first;
    const std::uint32_t count = std::min<std::uint32_t>(left, texts_together);
    if (count == 1) {
      if (!writer.write(window, first, 1)) return 0;
    } else {
      if (!together) together.emplace(net, ctx);
      together->begin_as(window);
      if (!writer.write(*together, first, count)) return 0;
    }
    first += count;
  }
  const seconds writing = timer::now() - began;
  if (o.speed)
    std::fprintf(stderr, "%zu tokens read in %.3f s; %lld written in %.3f s: %.1f tokens/s\n", prompt.size(),
                 reading.count(), static_cast<long long>(writer.written()), writing.count(),
                 static_cast<double>(writer.written()) / writing.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
#ifdef SIGPIPE
  std::signal(SIGPIPE, SIG_IGN);
#endif
  return gpt::run_program("gpt_sample", [&] {
    options o;
    return read_options(o, argc, argv) ? write_texts(o) : 0;
  });
}
