// compare FOLDER WORK: prints how far a model of the sizes FAMILY_MEMBER is from transformers' in FOLDER, and writes
// WORK/model.safetensors, of its gradients, and the folder WORK/exported. For ../compare_llama_family.py, which
// compiles it.
#include <cstdio>
#include <filesystem>

#include "parity/llama_family/model.hpp"

int main(int, char** argv) try {
  namespace gr = gradus;
  constexpr llama::config sizes{FAMILY_MEMBER};
  const std::filesystem::path folder = argv[1], work = argv[2];
  gradus_test::family_member<sizes> whole(folder);
  gradus_test::family_member<sizes, gr::bf16_mixed> half(folder);
  std::filesystem::create_directories(work / "exported");
  save_huggingface(whole.net, work / "exported");
  std::printf("%.3g %.3g %zu %.3g\n", whole.logits_differ(), half.logits_differ(), whole.greedy_tokens_alike(),
              whole.losses_differ(folder));
  whole.write_gradients(work);
  return 0;
} catch (const gradus::error& e) {
  std::fprintf(stderr, "compare: %s\n", e.what());
  return 1;
}
