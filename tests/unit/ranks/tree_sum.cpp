#include <doctest/doctest.h>

#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/cpu/tree_sum.hpp>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "../../support/conformance.hpp"
#include "../../support/seed.hpp"

namespace {

using gradus::cpu;
using gradus::index_t;
using namespace gradus_test::conformance;

struct machine {
  gradus::host_resource memory;
  gradus::stream stream;
  gradus::context<cpu> ctx{stream, memory};
};

template <class T>
std::vector<std::vector<T>> parts_of(unsigned seed, index_t count, index_t n) {
  std::vector<std::vector<T>> parts;
  for (index_t k = 0; k < count; ++k) parts.push_back(elements<T>(seed, 0, k, n));
  return parts;
}
template <class T>
std::vector<T> sums_of(const std::vector<std::vector<T>>& parts) {
  std::vector<T> sums(parts[0].size()), row(parts.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t k = 0; k < parts.size(); ++k) row[k] = parts[k][i];
    sums[i] = reduced(row, gradus::reduce_by::sum);
  }
  return sums;
}
template <class T>
std::vector<const T*> addresses(const std::vector<std::vector<T>>& parts) {
  std::vector<const T*> all;
  for (const auto& p : parts) all.push_back(p.data());
  return all;
}

TEST_CASE_TEMPLATE("a tree sum has the bits of its definition, wherever the result goes", T, double, float,
                   gradus::bf16, gradus::f16, std::int64_t, std::int32_t, std::uint16_t, std::uint8_t) {
  machine m;
  const unsigned seed = gradus_test::fresh_seed();
  for (const index_t count : {1, 2, 3, 4, 5, 7, 8, 13, 64, 200})
    for (const index_t n : {0, 1, 17, 513, 1500}) {
      const std::string what = std::to_string(count) + " parts of " + std::to_string(n);
      const auto parts = parts_of<T>(seed, count, n);
      const std::vector<T> wanted = sums_of(parts);
      std::vector<T> to(n);
      std::memset(static_cast<void*>(to.data()), 0xA5, n * sizeof(T));
      gradus::kernel<gradus::op::tree_sum, cpu>::forward(m.ctx, to.data(), addresses(parts), n);
      check_equal(to, wanted, what);
      for (const index_t over : {index_t{0}, count / 2, count - 1}) {
        auto own = parts;
        gradus::kernel<gradus::op::tree_sum, cpu>::forward(m.ctx, own[over].data(), addresses(own), n);
        check_equal(own[over], wanted, what + ", over part " + std::to_string(over));
        for (index_t k = 0; k < count; ++k)
          if (k != over) check_equal(own[k], parts[k], what + ": part " + std::to_string(k));
      }
    }
}

TEST_CASE("a tree sum does not depend on the number of threads") {
  const unsigned seed = gradus_test::fresh_seed();
  const auto parts = parts_of<float>(seed, 6, 200'003);
  const std::vector<float> wanted = sums_of(parts);
  for (const int threads : {1, 3}) {
    machine m;
    gradus::set_thread_count(m.stream, threads);
    std::vector<float> to(wanted.size());
    gradus::kernel<gradus::op::tree_sum, cpu>::forward(m.ctx, to.data(), addresses(parts), to.size());
    check_equal(to, wanted, std::to_string(threads) + " threads");
  }
}

// Merges leaves one after another, as a trainer does: after leaf k, subtrees end that have k as their last leaf.
template <class T>
std::vector<T> merged_one_by_one(machine& m, const std::vector<std::vector<T>>& leaves) {
  using C = gradus::compute_type<T>;
  using merge = gradus::kernel<gradus::op::merge_leaves, cpu>;
  const index_t n = leaves[0].size();
  std::vector<std::vector<C>> complete;  // subtrees, the largest first
  std::vector<T> root(n);
  for (index_t k = 0; k < leaves.size(); ++k) {
    index_t merges = 0;
    while (((k + 1) >> merges) % 2 == 0) ++merges;
    std::vector<const C*> before;
    for (index_t i = 0; i < merges; ++i) before.push_back(complete[complete.size() - 1 - i].data());
    if (k + 1 == leaves.size()) {
      merge::forward(m.ctx, root.data(), before, leaves[k].data(), n);
    } else {
      std::vector<C> sum(n);
      // In place where there is a place: over the largest subtree that it completes.
      C* const to = merges > 0 ? complete[complete.size() - merges].data() : sum.data();
      merge::forward(m.ctx, to, before, leaves[k].data(), n);
      if (merges == 0) complete.push_back(std::move(sum));
      else complete.resize(complete.size() - merges + 1);
    }
  }
  return root;
}

TEST_CASE_TEMPLATE("leaves that are merged one after another have the bits of their tree", T, double, float,
                   gradus::bf16, gradus::f16) {
  machine m;
  const unsigned seed = gradus_test::fresh_seed();
  for (const index_t count : {1, 2, 4, 8, 32})
    for (const index_t n : {1, 17, 1500}) {
      const auto leaves = parts_of<T>(seed, count, n);
      check_equal(merged_one_by_one(m, leaves), sums_of(leaves), std::to_string(count) + " leaves");
    }
}

TEST_CASE("a merge may overwrite its leaf") {
  machine m;
  const auto parts = parts_of<float>(gradus_test::fresh_seed(), 2, 1000);
  std::vector<float> leaf = parts[1];
  gradus::kernel<gradus::op::merge_leaves, cpu>::forward(m.ctx, leaf.data(), std::vector<const float*>{parts[0].data()},
                                                         leaf.data(), leaf.size());
  check_equal(leaf, sums_of(parts), "over the leaf");
}

}  // namespace
