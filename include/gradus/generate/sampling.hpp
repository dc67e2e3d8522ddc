#pragma once
// Samples the next token from a model's logits, as defined by Hugging Face's transformers.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "../core/dtype.hpp"
#include "../core/error.hpp"

namespace gradus {

/// How to sample a token. The defaults change nothing.
struct sampling_rule {
  double temperature = 1;  ///< divides the logits: below 1 favours likely tokens; 0: always the most likely token
  std::size_t top_k = 0;   ///< sample from the top k (ties included); 0: no limit
  double top_p = 1;        ///< sample from the smallest set of most likely tokens with at least this probability
  double repetition_penalty = 1;  ///< divides positive logits of earlier tokens, multiplies negative ones
};

/// A token and its probability.
struct token_probability {
  std::size_t token;
  double probability;
};

/// Samples tokens; reuses its memory. Applies the repetition penalty (Keskar et al., "CTRL", 2019), then temperature,
/// top_k (Fan et al. 2018) and top_p (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020), in the
/// order of Hugging Face's `generate`. Of equally likely tokens, the smaller id counts as more likely.
class token_sampler {
 public:
  /// Throws gradus::error for values outside their ranges.
  explicit token_sampler(const sampling_rule& rule) : rule_(rule) {
    check(rule.temperature >= 0 && std::isfinite(rule.temperature), "temperature must be 0 or more", rule.temperature);
    check(rule.top_p > 0 && rule.top_p <= 1, "top_p must be above 0 and at most 1", rule.top_p);
    check(rule.repetition_penalty > 0 && std::isfinite(rule.repetition_penalty), "repetition_penalty must be above 0",
          rule.repetition_penalty);
  }

  /// The candidate tokens and their probabilities, which add up to 1; token i has logits[i]. The penalty applies to the
  /// tokens `before`. Valid until the next call. Throws gradus::error if a logit is not finite.
  template <class T, class Token>
  std::span<const token_probability> probabilities(std::span<const T> logits, std::span<const Token> before) {
    take(logits);
    penalise(before);
    kept_.clear();
    const double largest = *std::ranges::max_element(logits_);
    if (rule_.temperature == 0) {
      kept_.push_back({static_cast<std::size_t>(std::ranges::find(logits_, largest) - logits_.begin()), 1});
      return kept_;
    }
    const double least = least_of_top_k();
    for (std::size_t i = 0; i < logits_.size(); ++i)
      if (logits_[i] >= least) kept_.push_back({i, std::exp((logits_[i] - largest) / rule_.temperature)});
    scale();
    if (rule_.top_p < 1) keep_top_p();
    return kept_;
  }
  /// Maps `draw`, uniform in [0, 1), to a token by the cumulative probabilities(logits, before).
  template <class T, class Token>
  std::size_t choose(std::span<const T> logits, std::span<const Token> before, double draw) {
    const auto among = probabilities(logits, before);
    for (const token_probability& t : among) {
      draw -= t.probability;
      if (draw < 0) return t.token;
    }
    return std::ranges::max_element(among, {}, &token_probability::probability)->token;  // rounding
  }

 private:
  static void check(bool fine, const char* what, double value) {
    if (!fine) throw error("sampling_rule: " + std::string(what) + ", not " + std::to_string(value));
  }
  template <class T>
  void take(std::span<const T> logits) {
    if (logits.empty()) throw error("token_sampler: logits is empty");
    logits_.resize(logits.size());
    was_there_.assign(logits.size(), false);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits_[i] = static_cast<double>(static_cast<compute_type<T>>(logits[i]));
      if (!std::isfinite(logits_[i]))
        throw error("the logit of token " + std::to_string(i) +
                    " is not finite: the model's parameters are damaged, or its training diverged");
    }
  }
  template <class Token>
  void penalise(std::span<const Token> before) {
    if (rule_.repetition_penalty == 1) return;
    for (const Token token : before) {
      const auto i = static_cast<std::size_t>(token);
      if (i >= logits_.size() || was_there_[i]) continue;
      was_there_[i] = true;
      logits_[i] = logits_[i] < 0 ? logits_[i] * rule_.repetition_penalty : logits_[i] / rule_.repetition_penalty;
    }
  }
  double least_of_top_k() {
    if (rule_.top_k == 0 || rule_.top_k >= logits_.size()) return -std::numeric_limits<double>::infinity();
    sorted_ = logits_;
    const auto last = sorted_.begin() + static_cast<std::ptrdiff_t>(rule_.top_k - 1);
    std::ranges::nth_element(sorted_, last, std::greater<>{});
    return *last;
  }
  void scale() {
    double sum = 0;
    for (const token_probability& t : kept_) sum += t.probability;
    for (token_probability& t : kept_) t.probability /= sum;
  }
  // Takes the most likely tokens from a heap until top_p is reached: few of many tokens are sorted.
  void keep_top_p() {
    const auto less_likely = [](const token_probability& a, const token_probability& b) {
      return a.probability != b.probability ? a.probability < b.probability : a.token > b.token;
    };
    std::ranges::make_heap(kept_, less_likely);
    double sum = 0;
    auto end = kept_.end();
    while (end != kept_.begin() && sum < rule_.top_p) {
      std::pop_heap(kept_.begin(), end, less_likely);
      sum += (--end)->probability;
    }
    kept_.erase(kept_.begin(), end);
    scale();
  }

  sampling_rule rule_;
  std::vector<double> logits_, sorted_;
  std::vector<bool> was_there_;
  std::vector<token_probability> kept_;
};

}  // namespace gradus
