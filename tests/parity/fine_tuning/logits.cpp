// logits MODEL.safetensors TOKENS.safetensors OUT.safetensors: what a model of gpt_train makes of tokens [batch,
// context]. For tests/parity/compare_fine_tuning.py, which compiles it for the model's sizes.
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "gpt/model_file.hpp"

int main(int, char** argv) try {
  namespace gr = gradus;
  using ids = gr::shape<gpt::batch_size, gpt::sizes.context>;
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::network net;
  gpt::load_model(net, ctx, argv[1]);
  const auto tokens = gr::safetensors_file(argv[2]).read<std::int32_t>("tokens");
  const auto logits = net(gr::from_host<std::int32_t, ids>(ctx, tokens.data()));
  std::vector<float> known;  // without those of the rows that pad the token table
  for (gr::index_t row = 0; row < ids::size; ++row) {
    const auto of_row = logits.values().subspan(row * gpt::sizes.padded_vocabulary(), gpt::sizes.vocabulary);
    known.insert(known.end(), of_row.begin(), of_row.end());
  }
  gr::safetensors_writer file;
  const std::array<std::size_t, 3> shape{gpt::batch_size, gpt::sizes.context, gpt::sizes.vocabulary};
  file.add("logits", shape, std::span<const float>(known));
  file.write(argv[3]);
  return 0;
} catch (const gradus::error& e) {
  std::fprintf(stderr, "logits: %s\n", e.what());
  return 1;
}
