// What every model of communicator<D> has to do: one suite, run on each of them.
//
// All inputs follow from a seed, the rank and the element's number, so each rank knows the inputs of all, whether ranks
// are threads or processes. A check that fails throws; the model's `run` has to rethrow it, so that the test fails.
#pragma once

#include <gradus/ranks/communicator.hpp>
#include <gradus/ranks/tree_sum.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gradus_test {

/// What one rank does.
template <class D>
using rank_function = std::function<void(gradus::context<D>&, gradus::communicator<D>&)>;

/// A model under test.
template <class D>
struct communicator_model {
  /// Runs a function on new ranks, waits for all, and rethrows the first failure that is no rank_failed. A rank whose
  /// function throws another exception has abandoned its communicator by it.
  std::function<void(gradus::index_t ranks, const rank_function<D>&)> run;
  std::vector<gradus::index_t> ranks;  ///< numbers of ranks to test
  unsigned seed = 0;                   ///< the same on all ranks
};

namespace conformance {

using gradus::collective_kind;
using gradus::communicator;
using gradus::context;
using gradus::index_t;
using gradus::reduce_by;
using gradus::reduce_options;
using gradus::sum_order;

inline void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

/// n elements in a device's memory between unused ones, which must not change. Not aligned to more than an element.
template <class D, class T>
class array {
 public:
  array(context<D>& ctx, const std::vector<T>& values) : ctx_(&ctx), n_(values.size()) {
    std::vector<T> all(n_ + 2 * guard, unused());
    std::copy(values.begin(), values.end(), all.begin() + guard);
    block_ = ctx.acquire(all.size() * sizeof(T), gradus::category::temporary);
    gradus::device_access<D>::upload(ctx, block_->data, all.data(), all.size() * sizeof(T));
  }
  /// Of n elements that nobody has written.
  array(context<D>& ctx, std::size_t n) : array(ctx, std::vector<T>(n, unused())) {}
  array(const array&) = delete;
  array& operator=(const array&) = delete;
  ~array() { ctx_->release(block_); }

  T* data() const { return static_cast<T*>(block_->data) + guard; }
  std::vector<T> values() const {
    std::vector<T> all(n_ + 2 * guard);
    gradus::device_access<D>::download(*ctx_, all.data(), block_->data, all.size() * sizeof(T));
    const T no = unused();
    for (std::size_t i = 0; i < guard; ++i)
      check(std::memcmp(&all[i], &no, sizeof no) == 0 && std::memcmp(&all[n_ + guard + i], &no, sizeof no) == 0,
            "a collective has written outside its buffer");
    return std::vector<T>(all.begin() + guard, all.end() - guard);
  }

 private:
  static constexpr std::ptrdiff_t guard = 5;
  static T unused() {
    T x;
    std::memset(static_cast<void*>(&x), 0xA5, sizeof x);
    return x;
  }

  context<D>* ctx_;
  std::size_t n_;
  gradus::memory_block<D>* block_ = nullptr;
};

/// Element i of rank `rank`'s input number `input`.
template <class T>
T element(unsigned seed, index_t input, index_t rank, index_t i) {
  std::uint64_t x = seed + (input << 48) + (rank << 40) + i;
  for (int k = 0; k < 3; ++k) x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u + 1;
  x ^= x >> 29;
  if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
  else  // of many magnitudes, so that the order of a sum shows
    return T(static_cast<float>(
        std::ldexp(static_cast<double>(x >> 20) / std::ldexp(1.0, 43) - 1.0, static_cast<int>(x % 12))));
}
template <class T>
std::vector<T> elements(unsigned seed, index_t input, index_t rank, index_t n) {
  std::vector<T> all(n);
  for (index_t i = 0; i < n; ++i) all[i] = element<T>(seed, input, rank, i);
  return all;
}

/// The tree of ranks/tree_sum.hpp, as it is defined.
template <class T>
gradus::compute_type<T> tree(const std::vector<T>& parts, index_t first, index_t count) {
  using C = gradus::compute_type<T>;
  if (count == 1) return static_cast<C>(parts[first]);
  index_t half = 1;
  while (2 * half < count) half *= 2;
  const C a = tree(parts, first, half), b = tree(parts, first + half, count - half);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else return a + b;
}
template <class T>
T reduced(const std::vector<T>& parts, reduce_by by) {
  if (by == reduce_by::sum) return static_cast<T>(tree(parts, 0, parts.size()));
  T best = parts[0];
  for (const T x : parts) {
    if constexpr (gradus::is_floating<T>)
      if (x != x) return x;
    if (by == reduce_by::minimum ? x < best : x > best) best = x;
  }
  return best;
}

/// Compares bits; NaN is NaN.
template <class T>
void check_equal(const std::vector<T>& got, const std::vector<T>& wanted, const std::string& what) {
  check(got.size() == wanted.size(), what + ": size");
  for (std::size_t i = 0; i < got.size(); ++i) {
    if constexpr (gradus::is_floating<T>)
      if (wanted[i] != wanted[i] && got[i] != got[i]) continue;
    if (std::memcmp(&got[i], &wanted[i], sizeof(T)) != 0)
      throw std::runtime_error(what + ": element " + std::to_string(i) + " of " + std::to_string(got.size()) + " is " +
                               std::to_string(static_cast<double>(got[i])) + ", not " +
                               std::to_string(static_cast<double>(wanted[i])));
  }
}

/// One rank's tests of one element type.
template <class D, class T>
class of_type {
 public:
  of_type(context<D>& ctx, communicator<D>& comm, unsigned seed)
      : ctx_(&ctx), comm_(&comm), seed_(seed), me_(comm.rank()), ranks_(comm.size()) {}

  void all(index_t n) {
    for (const bool in_place : {false, true}) {
      name_ = "rank " + std::to_string(me_) + " of " + std::to_string(ranks_) + ", element type " +
              std::to_string(static_cast<int>(gradus::element_type_of<T>())) + ", n = " + std::to_string(n) +
              (in_place ? ", in place: " : ": ");
      all_reduce(n, in_place);
      reduce_scatter(n, shares(n), true, in_place);
      reduce_scatter(n, uneven(n), false, in_place);
      all_gather(n, shares(n), true, in_place);
      all_gather(n, uneven(n), false, in_place);
      all_to_all(n, in_place);
    }
    different_all_to_all(n);
    for (const index_t root : {index_t{0}, ranks_ - 1}) broadcast(n, root);
  }
  /// Each collective of many elements once.
  void large(index_t n) {
    name_ = "rank " + std::to_string(me_) + " of " + std::to_string(ranks_) + ", n = " + std::to_string(n) + ": ";
    all_reduce(n, true, {});
    reduce_scatter(n, uneven(n), false, false, {});
    all_gather(n, shares(n), true, true);
    all_to_all(n / ranks_, true);
    different_all_to_all(n / ranks_);
    broadcast(n, ranks_ - 1);
  }

 private:
  std::vector<T> input_of(index_t rank, index_t n) const { return elements<T>(seed_, input_, rank, n); }
  // Some elements are NaN where `with_nan`.
  std::vector<T> input_of(index_t rank, index_t n, bool with_nan) const {
    std::vector<T> all = input_of(rank, n);
    if constexpr (gradus::is_floating<T>)
      for (index_t i = rank; with_nan && i < n; i += 13) all[i] = T(std::numeric_limits<float>::quiet_NaN());
    return all;
  }
  std::vector<T> reduction(index_t n, const reduce_options& o) const {
    std::vector<std::vector<T>> inputs;
    for (index_t r = 0; r < ranks_; ++r) inputs.push_back(input_of(r, n, o.by != reduce_by::sum));
    std::vector<T> to(n), parts(ranks_);
    for (index_t i = 0; i < n; ++i) {
      for (index_t r = 0; r < ranks_; ++r) parts[r] = inputs[r][i];
      to[i] = reduced(parts, o.by);
    }
    return to;
  }
  void check_reduction(const std::vector<T>& got, index_t first, index_t n, const reduce_options& o) const {
    const std::vector<T> all = reduction(n, o);
    const std::vector<T> wanted(at(all, first), at(all, first + got.size()));
    const std::string what = name_ + "reduction " + std::to_string(static_cast<int>(o.by));
    if (o.order == sum_order::tree || o.by != reduce_by::sum || !gradus::is_floating<T>)
      return check_equal(got, wanted, what + " by the tree");
    const double epsilon = sizeof(T) == 8 ? 1e-15 : sizeof(T) == 4 ? 1e-6 : 1e-2;  // of float, float and bf16
    for (index_t i = 0; i < got.size(); ++i) {
      double magnitude = 0;
      for (index_t r = 0; r < ranks_; ++r)
        magnitude += std::abs(static_cast<double>(element<T>(seed_, input_, r, first + i)));
      check(std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])) <=
                epsilon * magnitude * static_cast<double>(ranks_),
            what + ", fastest: element " + std::to_string(i));
    }
  }
  template <class V>
  static auto at(V& all, index_t i) {
    return all.begin() + static_cast<std::ptrdiff_t>(i);
  }

  std::vector<index_t> shares(index_t n) const {
    std::vector<index_t> all;
    for (index_t r = 0; r < ranks_; ++r)
      all.push_back(gradus::share_begin(n, r + 1, ranks_) - gradus::share_begin(n, r, ranks_));
    return all;
  }
  // Counts that differ, some of them 0, n in all.
  std::vector<index_t> uneven(index_t n) const {
    std::vector<index_t> all(ranks_);
    for (index_t r = 0, left = n; r < ranks_; ++r) {
      all[r] = r + 1 == ranks_ ? left : r % 3 == 1 ? 0 : left / 3;
      left -= all[r];
    }
    return all;
  }
  static index_t sum(const std::vector<index_t>& counts, index_t ranks) {
    index_t n = 0;
    for (index_t r = 0; r < ranks; ++r) n += counts[r];
    return n;
  }

  void all_reduce(index_t n, bool in_place) {
    for (const reduce_by by : {reduce_by::sum, reduce_by::minimum, reduce_by::maximum})
      for (const sum_order order : {sum_order::tree, sum_order::fastest}) all_reduce(n, in_place, {by, order});
  }
  void all_reduce(index_t n, bool in_place, const reduce_options& o) {
    ++input_;
    const std::vector<T> mine = input_of(me_, n, o.by != reduce_by::sum);
    const array<D, T> from(ctx(), mine), other(ctx(), n);
    const array<D, T>& to = in_place ? from : other;
    comm().all_reduce(ctx(), from.data(), to.data(), n, o).wait();
    check_reduction(to.values(), 0, n, o);
    if (!in_place) check_equal(from.values(), mine, name_ + "all_reduce: the input");
  }
  void reduce_scatter(index_t n, const std::vector<index_t>& counts, bool even, bool in_place) {
    for (const reduce_by by : {reduce_by::sum, reduce_by::minimum})
      for (const sum_order order : {sum_order::tree, sum_order::fastest})
        reduce_scatter(n, counts, even, in_place, {by, order});
  }
  void reduce_scatter(index_t n, const std::vector<index_t>& counts, bool even, bool in_place,
                      const reduce_options& o) {
    ++input_;
    const index_t first = sum(counts, me_);
    const std::vector<T> mine = input_of(me_, n, o.by != reduce_by::sum);
    const array<D, T> from(ctx(), mine), other(ctx(), counts[me_]);
    T* const to = in_place ? from.data() + first : other.data();
    if (even) comm().reduce_scatter(ctx(), from.data(), to, n, o).wait();
    else comm().reduce_scatter(ctx(), from.data(), to, counts, o).wait();
    const std::vector<T> whole = from.values(), share(at(whole, first), at(whole, first + counts[me_]));
    check_reduction(in_place ? share : other.values(), first, n, o);
    if (!in_place) check_equal(whole, mine, name_ + "reduce_scatter: the input");
  }
  void all_gather(index_t n, const std::vector<index_t>& counts, bool even, bool in_place) {
    ++input_;
    const index_t first = sum(counts, me_);
    std::vector<T> wanted;
    for (index_t r = 0; r < ranks_; ++r)
      for (const T x : input_of(r, counts[r])) wanted.push_back(x);
    const std::vector<T> mine = input_of(me_, counts[me_]);
    std::vector<T> before = array<D, T>(ctx(), n).values();
    if (in_place) std::copy(mine.begin(), mine.end(), at(before, first));
    const array<D, T> to(ctx(), before), own(ctx(), mine);
    const T* const from = in_place ? to.data() + first : own.data();
    if (even) comm().all_gather(ctx(), from, to.data(), n).wait();
    else comm().all_gather(ctx(), from, to.data(), counts).wait();
    check_equal(to.values(), wanted, name_ + "all_gather");
    check_equal(own.values(), mine, name_ + "all_gather: the input");
  }
  void all_to_all(index_t n, bool in_place) {
    ++input_;
    std::vector<T> wanted;
    for (index_t r = 0; r < ranks_; ++r) {
      const std::vector<T> sent = input_of(r, n * ranks_);
      wanted.insert(wanted.end(), at(sent, n * me_), at(sent, n * (me_ + 1)));
    }
    const array<D, T> from(ctx(), input_of(me_, n * ranks_)), other(ctx(), n * ranks_);
    const array<D, T>& to = in_place ? from : other;
    comm().all_to_all(ctx(), from.data(), to.data(), n).wait();
    check_equal(to.values(), wanted, name_ + "all_to_all");
  }
  void different_all_to_all(index_t n) {
    ++input_;
    const auto count = [n](index_t from, index_t to) { return (from + to) % 3 == 1 ? 0 : n / 2 + from * 3 + to; };
    std::vector<index_t> sent, received;
    std::vector<T> wanted;
    for (index_t r = 0; r < ranks_; ++r) {
      sent.push_back(count(me_, r));
      received.push_back(count(r, me_));
      index_t first = 0, all = 0;
      for (index_t k = 0; k < ranks_; ++k) (k < me_ ? first : all) += count(r, k);
      const std::vector<T> values = input_of(r, first + all);
      wanted.insert(wanted.end(), at(values, first), at(values, first + count(r, me_)));
    }
    const array<D, T> from(ctx(), input_of(me_, sum(sent, ranks_))), to(ctx(), sum(received, ranks_));
    comm().all_to_all(ctx(), from.data(), to.data(), sent, received).wait();
    check_equal(to.values(), wanted, name_ + "all_to_all with counts");
  }
  void broadcast(index_t n, index_t root) {
    ++input_;
    const array<D, T> data(ctx(), input_of(me_, n));
    comm().broadcast(ctx(), data.data(), n, root).wait();
    check_equal(data.values(), input_of(root, n), name_ + "broadcast from " + std::to_string(root));
  }

  context<D>& ctx() const { return *ctx_; }
  communicator<D>& comm() const { return *comm_; }

  context<D>* ctx_;
  communicator<D>* comm_;
  unsigned seed_;
  index_t me_, ranks_, input_ = 0;
  std::string name_;
};

/// Every collective, with elements of type T and numbers of them that ranks do not divide.
template <class D>
void collectives(const communicator_model<D>& model, gradus::element_type type) {
  gradus::with_element_type(type, [&]<class T>(T) {
    for (const index_t ranks : model.ranks)
      model.run(ranks, [&](context<D>& ctx, communicator<D>& comm) {
        check(comm.size() == ranks, "the number of ranks");
        of_type<D, T> tests(ctx, comm, model.seed);
        for (const index_t n : {0, 1, 7, 1000, 4099}) tests.all(n);
        comm.barrier(ctx);
      });
  });
}

/// Larger ones, which a model may divide into pieces.
template <class D>
void large_collectives(const communicator_model<D>& model, index_t n = 100'003) {
  for (const index_t ranks : model.ranks)
    model.run(ranks, [&](context<D>& ctx, communicator<D>& comm) {
      of_type<D, float>(ctx, comm, model.seed).large(n);
      of_type<D, gradus::bf16>(ctx, comm, model.seed + 1).large(n + 2);
    });
}

/// Collectives that are all under way before the first is waited for, and that are waited for in another order.
template <class D>
void many_in_flight(const communicator_model<D>& model) {
  for (const index_t ranks : model.ranks)
    model.run(ranks, [&](context<D>& ctx, communicator<D>& comm) {
      constexpr index_t many = 24, n = 777;
      const index_t me = comm.rank();
      for (index_t round = 0; round < 4; ++round) {
        std::vector<std::unique_ptr<array<D, float>>> data;
        std::vector<gradus::pending_collective<D>> pending;
        for (index_t k = 0; k < many; ++k) {
          data.push_back(std::make_unique<array<D, float>>(ctx, elements<float>(model.seed, k, me, n)));
          float* const x = data.back()->data();
          pending.push_back(k % 2 == 0 ? comm.all_reduce(ctx, x, x, n) : comm.broadcast(ctx, x, n, k % ranks));
          if (k == many / 2) comm.barrier(ctx);
        }
        std::vector<index_t> order(many);
        for (index_t k = 0; k < many; ++k) order[k] = k;
        std::mt19937 draw(model.seed + static_cast<unsigned>(16 * me + round));
        std::shuffle(order.begin(), order.end(), draw);
        if (round == 3) order.resize(many / 2);  // the others by their handles' destructors
        for (const index_t k : order) pending[k].wait();
        pending.clear();
        for (index_t k = 0; k < many; ++k) {
          std::vector<float> wanted(n), parts(ranks);
          for (index_t i = 0; i < n; ++i) {
            for (index_t r = 0; r < ranks; ++r) parts[r] = element<float>(model.seed, k, r, i);
            wanted[i] = k % 2 == 0 ? reduced(parts, reduce_by::sum) : parts[k % ranks];
          }
          check_equal(data[k]->values(), wanted, "collective " + std::to_string(k) + " in flight");
        }
      }
    });
}

/// What a rank that calls f is told by rank_failed; the test fails if it is told nothing.
template <class F>
std::string failure_of(const F& f) {
  try {
    f();
  } catch (const gradus::rank_failed& e) { return e.what(); }
  throw std::runtime_error("a collective has succeeded that must throw rank_failed");
}
inline void check_contains(const std::string& message, const std::string& part) {
  check(message.find(part) != std::string::npos, "'" + message + "' does not contain '" + part + "'");
}

/// Ranks that call different collectives all fail, and are told which rank called what.
template <class D>
void mismatch(const communicator_model<D>& model) {
  for (const index_t ranks : model.ranks)
    for (int which = 0; which < 6 && ranks > 1; ++which)
      model.run(ranks, [&](context<D>& ctx, communicator<D>& comm) {
        const array<D, float> x(ctx, std::vector<float>(1000 * ranks, 1.0F));
        float* const p = x.data();
        comm.all_reduce(ctx, p, p, 10).wait();
        const bool other = comm.rank() == ranks - 1;
        const std::string message = failure_of([&] {
          if (!other) comm.all_reduce(ctx, p, p, 1000).wait();
          else if (which == 0) comm.all_reduce(ctx, p, p, 999).wait();
          else if (which == 1) comm.all_reduce(ctx, p, p, 1000, {reduce_by::maximum}).wait();
          else if (which == 2)
            comm.all_reduce(ctx, reinterpret_cast<std::int32_t*>(p), reinterpret_cast<std::int32_t*>(p), 1000).wait();
          else if (which == 3) comm.broadcast(ctx, p, 1000, 0).wait();
          else if (which == 4) comm.barrier(ctx);
          else comm.all_reduce(ctx, p, p, 1000, {reduce_by::sum, sum_order::fastest}).wait();
        });
        check_contains(message, "rank " + std::to_string(ranks - 1));
        check_contains(message, "all_reduce");
        if (which == 3) check_contains(message, "broadcast");
        if (which == 4) check_contains(message, "barrier");
        failure_of([&] { comm.barrier(ctx); });  // it cannot be used any more
      });
}

/// A rank that ends makes the others fail, and its reason is what they are told.
template <class D>
void abandoned(const communicator_model<D>& model) {
  for (const index_t ranks : model.ranks)
    for (int which = 0; which < 2 && ranks > 1; ++which)
      model.run(ranks, [&](context<D>& ctx, communicator<D>& comm) {
        const array<D, float> x(ctx, std::vector<float>(1000, 1.0F));
        float* const p = x.data();
        comm.all_reduce(ctx, p, p, 1000).wait();
        if (comm.rank() == ranks / 2) return comm.abandon("its disk is full");
        const std::string message = failure_of([&] {
          if (which == 0) return comm.all_reduce(ctx, p, p, 1000).wait();
          auto pending = comm.all_reduce(ctx, p, p, 1000);
          comm.broadcast(ctx, p, 10).wait();
        });
        check_contains(message, "rank " + std::to_string(ranks / 2));
        check_contains(message, "its disk is full");
      });
}

/// So does one that throws: `run` has to rethrow what it threw.
template <class D>
void thrown(const communicator_model<D>& model) {
  struct no_data : std::runtime_error {
    no_data() : std::runtime_error("there is no data") {}
  };
  for (const index_t ranks : model.ranks) {
    bool rethrown = false;
    try {
      model.run(ranks, [&](context<D>& ctx, communicator<D>& comm) {
        const array<D, float> x(ctx, std::vector<float>(1000, 1.0F));
        comm.broadcast(ctx, x.data(), 1000).wait();
        if (comm.rank() == ranks - 1) throw no_data();
        check_contains(failure_of([&] { comm.barrier(ctx); }), "rank " + std::to_string(ranks - 1));
      });
    } catch (const no_data&) { rethrown = true; }
    check(rethrown, "what a rank threw was not rethrown");
  }
}

}  // namespace conformance
}  // namespace gradus_test
