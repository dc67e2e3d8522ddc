// Buffers whose memory comes and goes.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <gradus/memory/accounting.hpp>
#include <gradus/memory/buffer.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/measured_trace.hpp>
#include <gradus/memory/planned_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/plan/placement.hpp>
#include <gradus/tensor/tensor.hpp>
#include <vector>

#include "../../support/message_of.hpp"

using namespace gradus;
using gradus_test::message_of;

namespace {
struct bench {
  stream s;
  host_resource heap;
  stats_resource stats{heap};
  context<cpu> ctx{s, stats};
};
// Restores the buffers of its pages with their numbers in each byte.
struct numbering final : pager {
  std::vector<buffer<cpu>> pages;
  std::vector<std::size_t> uses;
  void use(std::size_t page) override {
    uses.push_back(page);
    if (!pages[page].is_resident()) std::memset(pages[page].restore(), static_cast<int>(page), pages[page].bytes());
  }
};
int byte_of(const buffer<cpu>& b) { return static_cast<int>(*static_cast<const std::byte*>(b.data())); }
}  // namespace

TEST_CASE("a paged buffer has memory between restore() and evict() only, and its handles and parts stay") {
  bench b;
  {
    const auto all = buffer<cpu>::paged(b.ctx, 1024, category::parameter, nullptr);
    const buffer<cpu> part = all.part(256, 512), inner = part.part(64, 64);
    CHECK(all.is_paged());
    CHECK(inner.is_paged());
    CHECK(b.stats.all().allocations == 0);
    for (std::size_t round = 1; round <= 3; ++round) {
      CHECK_FALSE(inner.is_resident());
      CHECK(part.data() == nullptr);
      void* const at = all.restore();
      CHECK(all.restore() == at);
      CHECK(all.data() == at);
      CHECK(inner.is_resident());
      CHECK(part.data() == static_cast<std::byte*>(at) + 256);
      CHECK(inner.data() == static_cast<std::byte*>(at) + 320);
      CHECK(b.stats.of(category::parameter).live == 1024);
      CHECK(b.stats.all().allocations == round);
      if (round == 3) break;  // is freed with the last handle
      all.evict();
      all.evict();
      CHECK(b.stats.all().live == 0);
    }
  }
  CHECK(b.stats.all().live == 0);
  const auto never = buffer<cpu>::paged(b.ctx, 64, category::parameter, nullptr);
  CHECK(never.bytes() == 64);
}

TEST_CASE("a pager is notified of each use of its buffers and their parts, and of none after end_paging()") {
  bench b;
  numbering all;
  for (std::size_t i = 0; i < 3; ++i) all.pages.push_back(buffer<cpu>::paged(b.ctx, 128, category::parameter, &all, i));
  const tensor<float, shape<16>> x(all.pages[2].part(64, 64));
  CHECK(all.uses.empty());
  CHECK(x.data() != nullptr);
  CHECK(byte_of(all.pages[1]) == 1);
  CHECK(byte_of(x.storage()) == 2);
  CHECK(all.uses == std::vector<std::size_t>{2, 1, 2});
  CHECK(b.stats.all().live == 256);
  all.pages[2].evict();
  CHECK(byte_of(x.storage()) == 2);
  all.pages[2].evict();
  all.pages[2].end_paging();
  CHECK(x.data() == nullptr);
  CHECK(all.uses.size() == 4);
}

TEST_CASE("memory that runs out leaves a paged buffer as it was") {
  stream s;
  host_resource heap;
  limit_resource limit(heap, 1000);
  context<cpu> ctx{s, limit};
  const auto first = buffer<cpu>::paged(ctx, 640, category::parameter, nullptr);
  const auto second = buffer<cpu>::paged(ctx, 640, category::parameter, nullptr);
  CHECK(first.restore() != nullptr);
  CHECK_THROWS_AS(static_cast<void>(second.restore()), out_of_memory);
  CHECK_FALSE(second.is_resident());
  first.evict();
  CHECK(second.restore() != nullptr);
}

TEST_CASE("other buffers cannot be evicted, nor can parts alone") {
  bench b;
  const buffer<cpu> plain(b.ctx, 64, category::input);
  const auto paged = buffer<cpu>::paged(b.ctx, 64, category::input, nullptr);
  CHECK_FALSE(plain.is_paged());
  CHECK(plain.is_resident());
  CHECK(message_of([&] { plain.evict(); }) ==
        "buffer.evict(): the buffer must be one of buffer::paged, and not a part of it");
  CHECK(message_of([&] { static_cast<void>(paged.part(0, 64).restore()); }) ==
        "buffer.restore(): the buffer must be one of buffer::paged, and not a part of it");
}

namespace {
// Requests of a step with paged buffers.
template <class D>
void step(context<D>& ctx) {
  const auto first = buffer<D>::paged(ctx, 640, category::parameter, nullptr);
  const auto second = buffer<D>::paged(ctx, 1280, category::parameter, nullptr);
  static_cast<void>(first.restore());
  const buffer<D> between(ctx, 320, category::activation);
  static_cast<void>(second.restore());
  first.evict();
  const typename context<D>::running now(ctx, "again", phase::backward, {});
  static_cast<void>(first.restore());
  second.evict();
}
}  // namespace

TEST_CASE("what restores and evictions request is planned on meta, and is what the CPU requests") {
  meta_stream none;
  accounting account;
  context<meta> planning{none, account};
  step_trace plan, real;
  account.start(plan);
  step(planning);
  account.finish();
  plan.alignment = cpu::alignment;
  CHECK(plan.blocks.size() == 4);
  CHECK(plan.blocks[3].source == "again");

  bench b;
  trace_resource traced(b.stats);
  context<cpu> ctx{b.s, traced};
  traced.start(real);
  step(ctx);
  traced.finish();
  CHECK(real.blocks.size() == 4);

  planned_resource planned(make_plan(plan), b.heap, b.s);
  context<cpu> in_plan{b.s, planned};
  for (int i = 0; i < 3; ++i) step(in_plan);
  planned.check();
}
