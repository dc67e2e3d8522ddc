#pragma once
// The training step of examples/gpt for one model of bench/, whose shape comes from bench/CMakeLists.txt, on random tokens.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gpt/training.hpp"

namespace bench {

namespace gr = gradus;

inline constexpr gpt::config config{GPT_LAYERS, GPT_HEADS, GPT_WIDTH, GPT_CONTEXT, GPT_VOCABULARY};
inline constexpr gr::index batch = GPT_BATCH;

#ifndef GPT_PRECISION
#define GPT_PRECISION fp32
#endif

/// `Token` is the element type of the batches.
template <class D, class Token>
using training = gpt::training<D, config, batch, Token, gr::GPT_PRECISION>;

/// One batch, the same in every run.
template <class Token>
struct random_batch {
  std::vector<Token> inputs, targets;

  random_batch() : inputs(batch * config.context), targets(inputs.size()) {
    const gr::random_key key{.seed = 5};
    constexpr gr::index used =
        config.vocabulary > 1000 ? config.vocabulary - 47 : config.vocabulary;  // without padding
    for (gr::index i = 0; i < inputs.size(); ++i) {
      const auto w = key.words(i);
      inputs[i] = static_cast<Token>(w[0] % used);
      targets[i] = static_cast<Token>(w[1] % used);
    }
  }
};

inline double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Bytes of a line of /proc/self/status: VmRSS (now) or VmHWM (most so far).
inline double status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field + ':', 0) == 0) return std::strtod(line.c_str() + field.size() + 1, nullptr) * 1024;
  return 0;
}

}  // namespace bench
