// What a tool that listens to NVTX, such as Nsight Systems, gets to know of a step.
#include <gradus/gpu/nvtx.hpp>
#include <string>
#include <vector>

#include "device.hpp"

namespace {

std::vector<std::string> heard;  // "softmax, forward" at a range's begin, "end" at its end
std::string domain;

nvtxDomainHandle_t create_domain(const char* name) {
  domain = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}
int push(nvtxDomainHandle_t on, const nvtxEventAttributes_t* range) {
  CHECK(on == reinterpret_cast<nvtxDomainHandle_t>(&domain));
  heard.emplace_back(range->message.ascii);
  return 0;
}
int pop(nvtxDomainHandle_t) {
  heard.emplace_back("end");
  return 0;
}

int listen(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

}  // namespace

TEST_CASE("each operation of a step is an NVTX range that names it and its phase") {
  if (no_gpu()) return;
  gpu g;
  InitializeInjectionNvtx2_fnptr = &listen;  // which NVTX calls at its first use
  gr::nvtx_ranges ranges;
  CHECK(domain == "gradus");
  gr::tape tape{g.ctx};
  const auto x = tape.variable(gr::zeros<float, gr::shape<2, 3>>(g.ctx));
  g.ctx.observe(&ranges);
  const auto y = gr::softmax(x);
  CHECK(heard == std::vector<std::string>{"softmax, forward", "end"});
  const auto loss = gr::sum(y);
  heard.clear();
  gr::backward(loss);
  g.ctx.observe(nullptr);
  CHECK(heard == std::vector<std::string>{"sum, backward", "end", "softmax, backward", "end"});
  static_cast<void>(gr::softmax(x.value()));
  CHECK(heard.size() == 4);
}
