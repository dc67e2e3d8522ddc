// Writes text with a model that gpt_train saved. Compiled for the model's sizes, like the trainer.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/core/platform.hpp>
#include <gradus/generate/stop_text.hpp>
#include <gradus/generate/token_window.hpp>
#include <gradus/report/progress.hpp>
#include <gradus/run/program.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "../device.hpp"
#include "../model_file.hpp"
#include "../model_folder.hpp"
#include "chat.hpp"
#include "tool_flags.hpp"

namespace gr = gradus;

namespace {

// A token reads each weight once, so cached copies in the compute type pay.
using policy = std::conditional_t<gpt::on_gpu, gpt::precision, gpt::host_precision>;
// A struct of its own: nvcc cannot write the sizes among the arguments of another template.
struct model : gpt::model_of<gpt::placed<gpt::device, gr::precision_with<policy, gr::keep_copies>, gpt::adapter_rank>,
                             gpt::sizes> {};

struct options : gpt::sample_options {
  gr::generation how() const { return {.rule = rule, .seed = seed}; }
};

std::atomic<long long> interrupted_at = 0;

std::string standard_input() {
  std::string text;
  char block[1 << 14];
  while (const std::size_t got = std::fread(block, 1, sizeof block, stdin)) text.append(block, got);
  if (std::ferror(stdin) != 0) throw gr::error("--prompt -: standard input cannot be read");
  if (text.empty()) throw gr::error("--prompt -: standard input is empty");
  return text;
}

/// Prints, and returns false if the output is closed. A closed pipe (`| head`) is no error; any other failure is one,
/// which run_program reports.
bool print(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return true;
  if (errno == EPIPE && std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
  return false;
}

/// Writes texts byte for byte to a file or a pipe, and printable characters to a terminal.
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

// Texts of one batch: a step reads the parameters once for all of them.
constexpr gr::index_t texts_together = 8;

class text_writer {
 public:
  text_writer(const options& o, const gr::text_tokenizer& words, const std::string& prompt)
      : o_(o), words_(words), prompt_(prompt), sampler_(o.rule) {}

  /// Writes texts `first` to `first + count - 1`, whose prompt is in the window. The first unfinished text is printed
  /// as it comes, the others after it. Returns false if the output is closed.
  template <class Window>
  bool write(Window& window, std::uint32_t first, std::size_t count) {
    std::vector<text> texts(count, text{gr::stop_text_finder(o_.stop), {}, false});
    std::uint32_t shown = 0;
    if (!begin(first)) return false;
    for (int i = 0; i < o_.count; ++i) {
      typename Window::ids next{};  // a finished text continues with token 0, unprinted
      for (std::uint32_t k = 0; k < count; ++k) {
        text& t = texts[k];
        if (t.finished) continue;
        next[k] =
            static_cast<std::int32_t>(sampler_.choose(window.logits(k).first(words_.vocabulary()), window.tokens(k),
                                                      o_.how().draw(static_cast<std::uint32_t>(i), first + k)));
        ++written_;
        const bool ends = words_.ends_text(next[k]);
        if (!ends) t.unprinted += t.stop.add(words_.decode(next[k]));
        t.finished = ends || t.stop.found() || i + 1 == o_.count;
        if (t.finished) t.unprinted += t.stop.finish();
      }
      for (; shown < count; ++shown) {
        if (!out_.add(std::exchange(texts[shown].unprinted, {}))) return false;
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
    std::string unprinted;
    bool finished;
  };

  bool begin(std::uint32_t number) {
    if (number > 0 && !print("--- " + std::to_string(number + 1) + "\n")) return false;
    return out_.add(prompt_.empty() && words_.bytes() ? "\n" : prompt_);
  }

  const options& o_;
  const gr::text_tokenizer& words_;
  const std::string& prompt_;
  gr::token_sampler sampler_;
  std::int64_t written_ = 0;
  text_output out_;
};

// The format that a model writes chats in. Throws gr::error if nothing says it.
gr::chat_format chat_format_of(const options& o, const std::filesystem::path& folder) {
  if (!o.chat_format.empty()) return gr::chat_format_named(o.chat_format);
  std::optional<gr::chat_format> found = gr::read_chat_format(folder / "tokenizer_config.json");
  if (!found && !o.adapter.empty()) found = gr::read_chat_format(gpt::folder_of(o.adapter) / "tokenizer_config.json");
  if (!found)
    throw gr::bad_flag("--chat: no file beside the model says how it writes chats; name its --chat-format: " +
                       gr::chat_format_names());
  return *found;
}

int write_texts(const options& o) {
  gpt::use_gpu(o.gpu);
  gpt::stream stream;
  gpt::set_threads(stream, o.threads);
  gpt::device_heap heap;
  gr::basic_pool_resource<gpt::stream> pool(heap);
  gr::context<gpt::device> ctx(stream, pool);
  const std::string tokenizer = o.tokenizer.empty() ? gpt::tokenizer_beside(o.model) : o.tokenizer;
  if (o.chat && tokenizer.empty() && gpt::sizes.vocabulary != gr::byte_tokenizer::vocabulary)
    throw gr::bad_flag("--chat: the model has no tokenizer.json; name its --tokenizer");
  const gr::text_tokenizer words = gpt::read_text_tokenizer(tokenizer);
  const std::string begins = o.prompt == "-" ? standard_input() : o.prompt;
  const std::vector<std::int32_t> prompt = words.encode(begins);
  model net;
  if (o.adapter.empty()) gpt::load_model(net, ctx, o.model);
  else gpt::load_model(net, ctx, o.adapter, o.model);
  gr::token_window<model> window(net, ctx);
  if (o.chat) {
    const gr::chat_format format = chat_format_of(o, gpt::folder_of(tokenizer.empty() ? o.model : tokenizer));
    const gr::tokenizer spelt = tokenizer.empty() ? gr::byte_level_tokenizer() : gpt::read_model_tokenizer(tokenizer);
    gpt::chat<interrupted_at>(
        window, model::context, spelt, format,
        {.system = o.system, .count = o.count, .how = o.how(), .shows_prompt = gr::platform::is_terminal(0)}, std::cin,
        print);
    return 0;
  }

  const auto start = timer::now();
  window.begin(prompt);
  const seconds reading = timer::now() - start;
  text_writer writer(o, words, begins);
  std::optional<gr::token_window<model, texts_together>> together;
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
  return gr::run_program("gpt_sample", [&] {
    options o;
    gpt::flag_table flags = o.table();
    flags.fix("device", gpt::device_name);
    if (!flags.read(argc, argv)) return 0;
    o.check(flags);
    return write_texts(o);
  });
}
