#pragma once
// Communicators: the collectives of ranks that work on one problem, each with memory of its own.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../memory/context.hpp"

namespace gradus {

/// Thrown on the ranks that are left when a rank has ended, or has called another collective than they have. The
/// message names that rank. The communicator cannot be used any more.
struct rank_failed : error {
  using error::error;
};

/// Elements that collectives move and reduce.
enum class element_type : unsigned char { f64, f32, bf16, f16, i64, i32, u16, u8 };

/// The element_type of T.
template <class T>
constexpr element_type element_type_of() {
  if constexpr (std::is_same_v<T, double>) return element_type::f64;
  else if constexpr (std::is_same_v<T, float>) return element_type::f32;
  else if constexpr (std::is_same_v<T, bf16>) return element_type::bf16;
  else if constexpr (std::is_same_v<T, f16>) return element_type::f16;
  else if constexpr (std::is_same_v<T, std::int64_t>) return element_type::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>) return element_type::i32;
  else if constexpr (std::is_same_v<T, std::uint16_t>) return element_type::u16;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "collectives take elements of type f64 f32 bf16 f16 i64 i32 u16 u8");
    return element_type::u8;
  }
}
/// Calls f(T{}) with the C++ type of an element_type.
template <class F>
constexpr decltype(auto) with_element_type(element_type type, const F& f) {
  switch (type) {
    case element_type::f64:
      return f(double{});
    case element_type::f32:
      return f(float{});
    case element_type::bf16:
      return f(bf16{});
    case element_type::f16:
      return f(f16{});
    case element_type::i64:
      return f(std::int64_t{});
    case element_type::i32:
      return f(std::int32_t{});
    case element_type::u16:
      return f(std::uint16_t{});
    default:
      return f(std::uint8_t{});
  }
}
/// Bytes of an element.
constexpr std::size_t size_of(element_type type) {
  return with_element_type(type, []<class T>(T) { return sizeof(T); });
}

/// What a reduction does with the elements of the ranks. NaN is the result wherever a rank has one.
enum class reduce_by : unsigned char { sum, minimum, maximum };

/// The order of a floating-point sum over ranks.
enum class sum_order : unsigned char {
  tree,  ///< the tree of ranks/tree_sum.hpp: the bits depend on the elements alone. 16-bit elements are summed in float
  fastest  ///< whatever the library beneath does
};

/// How a reduction is made.
struct reduce_options {
  reduce_by by = reduce_by::sum;
  sum_order order = sum_order::tree;
};

/// The collectives. In each, all ranks pass the same counts, type and options.
enum class collective_kind : unsigned char { barrier, broadcast, all_reduce, reduce_scatter, all_gather, all_to_all };

/// One collective, as a rank calls it. See the functions of communicator for what the members mean.
struct collective {
  collective_kind kind = collective_kind::barrier;
  element_type type = element_type::u8;
  reduce_options options = {};
  int root = 0;
  std::uint64_t tag = 0;  ///< compared with the other ranks'; see communicator::tagged
  const void* from = nullptr;
  void* to = nullptr;
  index_t count = 0;                   ///< elements in all
  std::vector<index_t> counts = {};    ///< of each rank; of all_to_all, those that this rank sends to each
  std::vector<index_t> received = {};  ///< all_to_all: those that it receives from each
};

/// The first element of rank `rank`'s share of n elements that `size` ranks divide as evenly as possible. The share
/// ends where the share of rank + 1 begins.
constexpr index_t share_begin(index_t n, index_t rank, index_t size) {
  return n / size * rank + (n % size < rank ? n % size : rank);
}

template <class D>
class communicator;

/// A collective that is under way. The buffers must not be used before wait() has returned.
template <class D>
class pending_collective {
 public:
  pending_collective() = default;
  pending_collective(pending_collective&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), on_(other.on_), number_(other.number_) {}
  pending_collective& operator=(pending_collective&& other) noexcept {
    std::swap(of_, other.of_), std::swap(on_, other.on_), std::swap(number_, other.number_);
    return *this;
  }
  /// Waits, and ignores a failure: the next collective reports it.
  ~pending_collective() {
    try {
      wait();
    } catch (const error&) {}
  }
  /// Makes the context's stream wait for the result; on the CPU that is the caller. Throws rank_failed.
  void wait();

 private:
  friend class communicator<D>;
  pending_collective(communicator<D>& of, context<D>& on, std::uint64_t number) : of_(&of), on_(&on), number_(number) {}

  communicator<D>* of_ = nullptr;
  context<D>* on_ = nullptr;
  std::uint64_t number_ = 0;
};

/// All ranks, as one of them sees them. Its models: single_communicator, thread_communicator (ranks are threads of
/// one process), mpi_communicator, nccl_communicator and, for plans, meta_communicator.
///
/// All ranks call the same collectives in the same order, and these run in that order. A collective begins after the
/// work that was submitted to the context's stream before it; work submitted after pending_collective::wait() sees its
/// result. One thread a rank uses a communicator.
///
/// Shares: where a function takes n elements that ranks divide, rank r has those from share_begin(n, r, size()) on, or
/// counts[r] elements, which follow the shares of the ranks before. Counts may be 0.
template <class D>
class communicator {
 public:
  using device = D;
  using pending = pending_collective<D>;

  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;
  virtual ~communicator() = default;

  index_t rank() const { return rank_; }  ///< of the caller, from 0
  index_t size() const { return size_; }  ///< number of ranks

  /// Gives the next collective a number that the ranks compare: where several are alike, a rank that calls another one
  /// is found. `ranks.tagged(3).all_reduce(...)`.
  communicator& tagged(std::uint64_t tag) {
    tag_ = tag;
    return *this;
  }
  /// Returns when all ranks have called it, and all earlier collectives are done.
  void barrier(context<D>& ctx) { begin(ctx, {}).wait(); }
  /// The n elements of `root` go to all ranks.
  template <class T>
  [[nodiscard]] pending broadcast(context<D>& ctx, T* data, index_t n, index_t root = 0) {
    collective c = made<T>(collective_kind::broadcast, data, data, n);
    c.root = static_cast<int>(root);
    return begin(ctx, std::move(c));
  }
  /// Element i of `to` becomes the reduction of element i of all ranks' `from`. In place: from == to.
  template <class T>
  [[nodiscard]] pending all_reduce(context<D>& ctx, const T* from, T* to, index_t n, const reduce_options& o = {}) {
    collective c = made<T>(collective_kind::all_reduce, from, to, n);
    c.options = o;
    return begin(ctx, std::move(c));
  }
  /// Replaces n numbers by their sums over all ranks, in any order, and waits for them: exact where each number is 0 on
  /// all ranks but one.
  void add_up(context<D>& ctx, double* numbers, index_t n) {
    all_reduce(ctx, numbers, numbers, n, {.by = reduce_by::sum, .order = sum_order::fastest}).wait();
  }
  /// Like all_reduce, but each rank receives only its own share, or counts[rank] elements, at `to`. In place: `to` is
  /// where the rank's share of `from` begins.
  template <class T>
  [[nodiscard]] pending reduce_scatter(context<D>& ctx, const T* from, T* to, index_t n, const reduce_options& o = {}) {
    return reduce_scatter(ctx, from, to, shares(n), o);
  }
  template <class T>
  [[nodiscard]] pending reduce_scatter(context<D>& ctx, const T* from, T* to, std::vector<index_t> counts,
                                       const reduce_options& o = {}) {
    collective c = made<T>(collective_kind::reduce_scatter, from, to, 0);
    c.options = o;
    c.counts = std::move(counts);
    return begin(ctx, std::move(c));
  }
  /// All shares, the rank's own at `from`, go to `to` of all ranks. In place: `from` is where the rank's share of `to`
  /// begins.
  template <class T>
  [[nodiscard]] pending all_gather(context<D>& ctx, const T* from, T* to, index_t n) {
    return all_gather(ctx, from, to, shares(n));
  }
  template <class T>
  [[nodiscard]] pending all_gather(context<D>& ctx, const T* from, T* to, std::vector<index_t> counts) {
    collective c = made<T>(collective_kind::all_gather, from, to, 0);
    c.counts = std::move(counts);
    return begin(ctx, std::move(c));
  }
  /// `n` elements go from every rank to every rank, in the order of ranks: [size(), n] to [size(), n]. In place: from
  /// == to.
  template <class T>
  [[nodiscard]] pending all_to_all(context<D>& ctx, const T* from, T* to, index_t n) {
    const std::vector<index_t> each(size_, n);
    return all_to_all(ctx, from, to, each, each);
  }
  /// All-to-all with `sent[r]` elements to rank r and `received[r]` from rank r. Not in place, unless they are all
  /// equal.
  template <class T>
  [[nodiscard]] pending all_to_all(context<D>& ctx, const T* from, T* to, std::vector<index_t> sent,
                                   std::vector<index_t> received) {
    collective c = made<T>(collective_kind::all_to_all, from, to, 0);
    c.counts = std::move(sent);
    c.received = std::move(received);
    return begin(ctx, std::move(c));
  }

  /// Starts a collective whose arguments are checked; returns its number. For models and for those that wrap them.
  virtual std::uint64_t start(context<D>& ctx, const collective& what) = 0;
  /// Waits for the collective of that number, and for those before it; see pending_collective::wait.
  virtual void finish(context<D>& ctx, std::uint64_t number) = 0;
  /// Tells the other ranks that this one ends and why, so that they fail rather than wait for it.
  virtual void abandon(const std::string& /*why*/) noexcept {}

 protected:
  communicator(index_t rank, index_t size) : rank_(rank), size_(size) {
    if (size == 0 || rank >= size)
      throw error("communicator: rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks");
  }
  /// How many of n elements each rank has, if ranks divide them.
  std::vector<index_t> shares(index_t n) const {
    std::vector<index_t> all(size_);
    for (index_t r = 0; r < size_; ++r) all[r] = share_begin(n, r + 1, size_) - share_begin(n, r, size_);
    return all;
  }

 private:
  template <class T>
  static collective made(collective_kind kind, const T* from, T* to, index_t n) {
    collective c;
    c.kind = kind;
    c.type = element_type_of<T>();
    c.from = from;
    c.to = to;
    c.count = n;
    return c;
  }
  pending begin(context<D>& ctx, collective c) {
    c.tag = std::exchange(tag_, 0);
    if (!c.counts.empty()) {
      if (c.counts.size() != size_ || (!c.received.empty() && c.received.size() != size_))
        throw error("communicator: give one count for each of the " + std::to_string(size_) + " ranks");
      c.count = 0;
      for (const index_t n : c.counts) c.count += n;
    }
    if (c.kind == collective_kind::broadcast && static_cast<index_t>(c.root) >= size_)
      throw error("communicator.broadcast: there is no rank " + std::to_string(c.root) + "; there are " +
                  std::to_string(size_));
    return pending(*this, ctx, start(ctx, c));
  }

  index_t rank_, size_;
  std::uint64_t tag_ = 0;
};

template <class D>
void pending_collective<D>::wait() {
  if (communicator<D>* const of = std::exchange(of_, nullptr)) of->finish(*on_, number_);
}

/// The communicator of one rank alone.
template <class D>
class single_communicator final : public communicator<D> {
 public:
  single_communicator() : communicator<D>(0, 1) {}
  std::uint64_t start(context<D>& ctx, const collective& c) override {
    if constexpr (D::computes) {
      const index_t n = c.count;
      if (n > 0 && c.from != c.to) device_access<D>::copy(ctx, c.to, c.from, n * size_of(c.type));
    }
    return 0;
  }
  void finish(context<D>&, std::uint64_t) override {}
};

/// Rank `rank` of `size` ranks in a plan: nothing is computed, so nothing is exchanged.
template <class D>
class meta_communicator final : public communicator<D> {
  static_assert(!D::computes, "meta_communicator<Device>: the device is one of plans, such as gradus::meta");

 public:
  meta_communicator(index_t rank, index_t size) : communicator<D>(rank, size) {}
  std::uint64_t start(context<D>&, const collective&) override { return 0; }
  void finish(context<D>&, std::uint64_t) override {}
};

}  // namespace gradus
