#pragma once
// NVTX ranges of operations, for Nsight Systems. Not part of cuda.hpp.

#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "../memory/activity.hpp"

namespace gradus {

/// Marks every operation in the contexts that it observes, `ctx.observe(&ranges)`, as a range of the NVTX domain
/// "gradus": "softmax, backward", with a colour for each phase. The ranges are the host's, and Nsight Systems shows the
/// kernels that were launched in each. In a step_graph there are ranges only while the step is captured.
class nvtx_ranges final : public observer {
 public:
  nvtx_ranges() : domain_(nvtxDomainCreateA("gradus")) {}
  ~nvtx_ranges() override { nvtxDomainDestroy(domain_); }

  void begin(const activity& what) override {
    constexpr std::uint32_t colors[phase_count] = {0xFF9E9E9E, 0xFF4CAF50, 0xFFFFC107, 0xFF2196F3, 0xFF9C27B0};
    text_.assign(what.name).append(", ").append(phase_name(what.phase));
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.colorType = NVTX_COLOR_ARGB;
    range.color = colors[static_cast<std::size_t>(what.phase)];
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = text_.c_str();
    static_cast<void>(nvtxDomainRangePushEx(domain_, &range));
  }
  void end(const activity&) override { static_cast<void>(nvtxDomainRangePop(domain_)); }

 private:
  nvtxDomainHandle_t domain_;
  std::string text_;
};

}  // namespace gradus
