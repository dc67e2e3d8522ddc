#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/interop/dlpack.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "../../support/message_of.hpp"

namespace gr = gradus;

namespace {

struct workplace {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{stream, stats};
};

// A tensor of another library.
template <class Managed>
struct foreign {
  alignas(gr::cpu::alignment) float values[64] = {0, 1, 2, 3, 4, 5};
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {3, 1};
  int deleted = 0;
  Managed managed{};

  foreign() {
    managed.dl_tensor = {values, {1, 0}, 2, {2, 32, 1}, shape, strides, 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<foreign*>(self->manager_ctx)->deleted; };
    if constexpr (requires { managed.version; }) managed.version = {1, 0};
  }
};

// The structs as DLPack's header has them: other names, and an enumeration.
enum DLDeviceType : std::int32_t { kDLCPU = 1 };
struct DLManagedTensor {
  struct {
    void* data;
    struct {
      DLDeviceType device_type;
      std::int32_t device_id;
    } device;
    std::int32_t ndim;
    struct {
      std::uint8_t code, bits;
      std::uint16_t lanes;
    } dtype;
    std::int64_t* shape;
    std::int64_t* strides;
    std::uint64_t byte_offset;
  } dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

template <class T, class Shape, class Managed>
std::string refusal(workplace& at, foreign<Managed>& theirs) {
  const std::string said =
      gradus_test::message_of([&] { static_cast<void>(gr::from_dlpack<T, Shape>(at.ctx, &theirs.managed)); });
  if (said == "nothing was thrown") CHECK(theirs.deleted == 1);
  else CHECK(theirs.deleted == 0);  // and nothing was taken over
  return said;
}

}  // namespace

TEST_CASE_TEMPLATE("a tensor that goes out by DLPack and comes back is the same elements, until both ends let go",
                   Managed, gr::dlpack::managed_tensor, gr::dlpack::managed_tensor_versioned, DLManagedTensor) {
  workplace at;
  {
    auto back = gr::tensor<float, gr::shape<2, 3>>();
    {
      auto x = gr::from_values<float, gr::shape<2, 3>>(at.ctx, {1, 2, 3, 4, 5, 6});
      Managed* const out = gr::to_dlpack<Managed>(x);
      CHECK(out->dl_tensor.data == x.data());
      CHECK(out->dl_tensor.ndim == 2);
      CHECK(out->dl_tensor.shape[1] == 3);
      CHECK(out->dl_tensor.strides[0] == 3);
      CHECK(out->dl_tensor.device.device_type == 1);
      back = gr::from_dlpack<float, gr::shape<2, 3>>(at.ctx, out);
      CHECK(back.data() == x.data());
    }
    CHECK(gr::to_host(back) == std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(at.stats.all().live > 0);
  }
  CHECK(at.stats.all().live == 0);
  CHECK(at.stats.all().allocations == 1);
}

TEST_CASE_TEMPLATE("every element type has its DLPack type", T, double, float, gr::bf16, gr::f16, std::int64_t,
                   std::int32_t, std::uint16_t, std::uint8_t, bool) {
  workplace at;
  auto* const out = gr::to_dlpack(gr::zeros<T, gr::shape<>>(at.ctx));
  const auto type = out->dl_tensor.dtype;
  CHECK(type.bits == 8 * sizeof(T));
  CHECK(type.lanes == 1);
  const int code = std::is_same_v<T, bool>       ? 6
                   : std::is_same_v<T, gr::bf16> ? 4
                   : gr::is_floating<T>          ? 2
                   : std::is_unsigned_v<T>       ? 1
                                                 : 0;
  CHECK(type.code == code);
  CHECK(out->version.major == 1);
  CHECK(out->flags == 0);
  CHECK(gr::to_host(gr::from_dlpack<T, gr::shape<>>(at.ctx, out)).size() == 1);
  CHECK(at.stats.all().live == 0);
}

TEST_CASE_TEMPLATE("the deleter of a foreign tensor runs once, after the last tensor that shares it", Managed,
                   gr::dlpack::managed_tensor, gr::dlpack::managed_tensor_versioned) {
  workplace at;
  foreign<Managed> theirs;
  theirs.managed.dl_tensor.strides = nullptr;
  theirs.managed.dl_tensor.byte_offset = 64;
  theirs.values[16] = 7;
  {
    auto x = gr::from_dlpack<float, gr::shape<2, 3>>(at.ctx, &theirs.managed);
    const auto flat = gr::reshape<6>(x);
    x = {};
    CHECK(flat.data() == theirs.values + 16);
    CHECK(gr::item(gr::sum(flat)) == 7);
    CHECK(theirs.deleted == 0);
  }
  CHECK(theirs.deleted == 1);
  theirs.managed.deleter = nullptr;  // nobody wants to know
  CHECK(gr::from_dlpack<float, gr::shape<2, 3>>(at.ctx, &theirs.managed));
  CHECK(theirs.deleted == 1);
}

TEST_CASE("axes of one entry may have any stride") {
  workplace at;
  foreign<gr::dlpack::managed_tensor> theirs;
  theirs.shape[0] = 1;
  theirs.strides[0] = 77;
  const auto x = gr::from_dlpack<float, gr::shape<1, 3>>(at.ctx, &theirs.managed);
  CHECK(x.data() == theirs.values);
}

TEST_CASE("a foreign tensor that does not fit is refused in one line") {
  workplace at;
  using S = gr::shape<2, 3>;
  const std::string name = "from_dlpack<f32, shape<2, 3>>: ";
  foreign<gr::dlpack::managed_tensor_versioned> theirs;
  auto& t = theirs.managed.dl_tensor;
  CHECK(refusal<double, S>(at, theirs) == "from_dlpack<f64, shape<2, 3>>: the elements are f32");
  CHECK(refusal<std::int32_t, S>(at, theirs) == "from_dlpack<i32, shape<2, 3>>: the elements are f32");
  CHECK(refusal<float, gr::shape<3, 2>>(at, theirs) == "from_dlpack<f32, shape<3, 2>>: the shape is [2, 3]");
  CHECK(refusal<float, gr::shape<6>>(at, theirs) == "from_dlpack<f32, shape<6>>: the shape is [2, 3]");
  t.dtype = {4, 16, 1};
  CHECK(refusal<float, S>(at, theirs) == name + "the elements are bf16");
  t.dtype = {6, 8, 1};
  CHECK(refusal<float, S>(at, theirs) == name + "the elements are bool");
  t.dtype = {17, 4, 1};
  CHECK(refusal<float, S>(at, theirs) == name + "the elements are type 17 of bits 4");
  t.dtype = {2, 32, 4};
  CHECK(refusal<float, S>(at, theirs) == name + "the elements are vectors of 4 elements");
  t.dtype = {2, 32, 1};
  theirs.strides[0] = 1, theirs.strides[1] = 2;
  CHECK(refusal<float, S>(at, theirs) == name + "the strides are [1, 2]; make it contiguous (row-major) first");
  theirs.strides[0] = 3, theirs.strides[1] = 1;
  t.device = {2, 1};
  CHECK(refusal<float, S>(at, theirs) == name + "the tensor is on GPU 1, the context on the CPU");
  t.device = {10, 0};
  CHECK(refusal<float, S>(at, theirs) == name + "the tensor is on DLPack's device 10:0, the context on the CPU");
  t.device = {1, 0};
  t.byte_offset = 4;
  CHECK(refusal<float, S>(at, theirs) ==
        "borrow(ctx, memory): the address must be a multiple of 64, and not null; copy the elements instead");
  t.byte_offset = 0;
  theirs.managed.version = {2, 0};
  CHECK(refusal<float, S>(at, theirs) == "from_dlpack: version 2 of DLPack is not known");
  theirs.managed.version = {1, 7};
  CHECK(refusal<float, S>(at, theirs) == "nothing was thrown");
}

TEST_CASE("an empty tensor is not exported") {
  const gr::tensor<float, gr::shape<2>> nothing;
  CHECK_THROWS_AS(static_cast<void>(gr::to_dlpack(nothing)), gr::error);
}
