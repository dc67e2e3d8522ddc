#pragma once
// The sample that ends a run.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <gradus/core/printable.hpp>

#include "generate.hpp"
#include "model_file.hpp"
#include "vocabulary.hpp"

namespace gpt {

/// What is written, and when to stop before the end.
struct closing_sample {
  int count = 0;  ///< tokens
  std::uint64_t seed = 1;
  std::function<bool()> stop;

  /// Writes to the screen what the model says. `ctx` is for keys and values.
  template <class X>
  void write(const model<X, sizes>& net, gr::context<gr::cpu>& ctx, const std::string& tokenizer) const {
    const vocabulary words(tokenizer);
    token_window window(net, ctx);
    gr::printable_text shown;
    generate(window, words, "", count, {.seed = seed}, [&](std::string_view some) {
      std::fputs(shown.add(some).c_str(), stdout);
      return std::fflush(stdout) == 0 && !stop();
    });
    std::puts(shown.finish().c_str());
  }
  /// The same by the model in a file, on the CPU, wherever it was trained.
  void write(const std::filesystem::path& model_file) const;
  /// By the model as it lies there, if the CPU can read it, or else by the file that was saved of it.
  template <class D, class Net>
  void write(const Net& net, gr::context<D>& ctx, const std::filesystem::path& model_file) const {
    if constexpr (D::host_addressable) write(net, ctx, tokenizer_beside(model_file));
    else write(model_file);
  }
};

}  // namespace gpt
