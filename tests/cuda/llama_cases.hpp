#pragma once
// A Llama trained as the GPT of gpt_cases.hpp is.

#include "../../examples/llama/model.hpp"
#include "gpt_cases.hpp"

inline constexpr llama::config small_llama{
    .layers = 2, .heads = 4, .width = 48, .context = 32, .vocabulary = 61, .kv_heads = 2, .hidden = 72, .tied = 0};

template <class D>
void llama_cases(runner<D>& r) {
  gpt_case<gr::fp32, small_llama>(r, "fp32", 2.5e-5);
  gpt_case<gr::bf16_mixed, small_llama>(r, "bf16_mixed", 1e-2);
}

// Computed in the .cpp file.
std::vector<record> llama_on_cpu(unsigned seed);
