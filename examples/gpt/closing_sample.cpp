#include "closing_sample.hpp"

namespace gpt {

void closing_sample::write(const std::filesystem::path& model_file) const {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  model<gr::on<gr::cpu, host_precision>, sizes> net;
  load_model(net, ctx, model_file);
  write(net, ctx, tokenizer_beside(model_file));
}

}  // namespace gpt
