// GPUs whose blocks have less shared memory than an H100's: an emulator plays them, each in a process of its own. On a
// GPU all of them are that GPU.
#include <cstdio>
#include <string>
#include <type_traits>

#include "device.hpp"
#include "wide_heads_cases.hpp"

TEST_CASE("attention of wide heads has the CPU's values and gradients") {
  if (no_gpu()) return;
  agree(&wide_heads_on_cpu, [](auto& r) { wide_heads_cases(r); });
}

TEST_CASE("and with less shared memory a block") {
  if (no_gpu()) return;
  for (const char* const played : {"rtx4090", "a100"}) {
    CAPTURE(played);
    std::FILE* const child = popen(
        ("GPUSIM_GPU=" + std::string(played) + " /proc/$PPID/exe -tc='attention of wide heads*' 2>&1").c_str(), "r");
    REQUIRE(child != nullptr);
    std::string said;
    for (int c = std::fgetc(child); c != EOF; c = std::fgetc(child)) said += static_cast<char>(c);
    const int status = pclose(child);
    CHECK_MESSAGE(status == 0, said);
  }
}

TEST_CASE("tiles are as large as the shared memory of a block allows") {
  using gr::cuda_kit::flash_backward;
  using gr::cuda_kit::flash_forward;
  using gr::cuda_kit::least_block_memory;
  using gr::cuda_kit::most_block_memory;
  using gr::cuda_kit::tiles_within;
  const auto fit = []<class C, gr::index_t Depth>(std::integral_constant<gr::index_t, Depth>, C) {
    using F = gr::cuda_kit::flash_attention<C, C, Depth, gr::cuda_kit::plain_launch<C, Depth, true>>;
    using forward = decltype(tiles_within<flash_forward, least_block_memory, F>());
    using backward = decltype(tiles_within<flash_backward, least_block_memory, F>());
    CHECK(forward::forward_bytes <= least_block_memory);
    CHECK(backward::dkv_bytes <= least_block_memory);
    return F::dkv_bytes <= most_block_memory;
  };
  CHECK(fit(std::integral_constant<gr::index_t, 128>{}, 0.0f));
  CHECK(fit(std::integral_constant<gr::index_t, 256>{}, 0.0f));
  CHECK(fit(std::integral_constant<gr::index_t, 128>{}, 0.0));
}
