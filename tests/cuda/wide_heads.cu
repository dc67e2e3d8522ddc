// GPUs whose blocks have less shared memory than an H100's: an emulator plays them, each in a process of its own. On a
// GPU all of them are that GPU.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device.hpp"
#include "wide_heads_cases.hpp"

namespace {

constexpr unsigned seed = 20;

std::vector<record> on_this_gpu() {
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  wide_heads_cases(r);
  return r.records;
}
/// One number of all bits.
std::string digest(const std::vector<record>& records) {
  std::uint64_t hash = 14695981039346656037u;
  for (const record& r : records)
    for (const double x : r.values) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &x, sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
  return std::to_string(hash);
}
/// What the case below prints on that GPU.
std::string found_on(const std::string& played) {
  std::FILE* const child =
      popen(("GPUSIM_GPU=" + played + " /proc/$PPID/exe -ns -tc='*in a child*' 2>&1").c_str(), "r");
  REQUIRE(child != nullptr);
  std::string text;
  for (int c = std::fgetc(child); c != EOF; c = std::fgetc(child)) text += static_cast<char>(c);
  pclose(child);
  const std::size_t at = text.find("found: ");
  return at == std::string::npos ? text : text.substr(at + 7, text.find('\n', at) - at - 7);
}

}  // namespace

TEST_CASE("in a child process, on another GPU" * doctest::skip()) {
  if (no_gpu()) return;
  std::printf("found: %s\n", digest(on_this_gpu()).c_str());
}

TEST_CASE("attention of wide heads has the CPU's values, and the same bits with less shared memory a block") {
  if (no_gpu()) return;
  const auto here = on_this_gpu();
  agree(here, wide_heads_on_cpu(seed));
  for (const char* const played : {"rtx4090", "a100"}) CHECK(found_on(played) == digest(here));
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
    CHECK(forward::block_n == F::block_n);  // which the order of its sums depends on
    return F::dkv_bytes <= most_block_memory;
  };
  CHECK(fit(std::integral_constant<gr::index_t, 128>{}, 0.0f));
  CHECK(fit(std::integral_constant<gr::index_t, 256>{}, 0.0f));
  CHECK(fit(std::integral_constant<gr::index_t, 128>{}, 0.0));
}
