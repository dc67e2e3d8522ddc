#pragma once
// Save policies: which results a checkpoint region keeps for backward instead of recomputing them. A policy is any type
// with
//   constexpr bool saves(const region_op&) const;
// It may have a list `names` of operations: a region that applies none of that name is an error. It may have
// `bool offloads(const region_op&) const`: which of the results that it saves are kept in host memory. It may have
// `inspect(const region_graph&) const`, called at the end of the region's forward.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "../../core/cost.hpp"
#include "../../core/fixed_string.hpp"
#include "../../core/vector.hpp"
#include "log.hpp"

namespace gradus {

/// The facts of an operation by which a policy decides whether the region keeps its result.
struct region_op {
  std::string_view name;    ///< the operation's, or the one given by named()
  std::string_view family;  ///< the name of its family (linear is a matmul)
  std::size_t number;       ///< operations applied before it in the region
  cost work;                ///< of recomputing it
  std::size_t bytes;        ///< of its output and statistics; 0 for a nested region ("checkpoint")

  constexpr bool is(std::string_view which) const { return which == name || which == family; }
};

/// Keeps nothing: backward recomputes all results.
struct save_none {
  constexpr bool saves(const region_op&) const { return false; }
};
/// Keeps every result that backward needs, and recomputes none.
struct save_all {
  constexpr bool saves(const region_op&) const { return true; }
};
/// Keeps the outputs of the listed operations: `save_only<op::matmul, op::attention>`.
template <class... Ops>
struct save_only {
  static constexpr std::array<std::string_view, sizeof...(Ops)> names{Ops::name...};
  constexpr bool saves(const region_op& op) const { return (op.is(Ops::name) || ...); }
};
/// Keeps the outputs of all operations but the listed ones.
template <class... Ops>
struct save_all_but {
  static constexpr std::array<std::string_view, sizeof...(Ops)> names{Ops::name...};
  constexpr bool saves(const region_op& op) const { return !(op.is(Ops::name) || ...); }
};
/// Keeps the values of named(): `save_named<"scores">` keeps `x = gr::named(x, "scores")`.
template <detail::fixed_string... Names>
struct save_named {
  static constexpr std::array<std::string_view, sizeof...(Names)> names{std::string_view(Names)...};
  constexpr bool saves(const region_op& op) const { return ((op.name == std::string_view(Names)) || ...); }
};
/// Keeps the outputs of operations named at run time, or all but those.
struct save_listed {
  detail::vector<std::string> names;
  bool all_but = false;
  constexpr bool saves(const region_op& op) const {
    bool listed = false;
    for (const std::string& name : names) listed = listed || op.is(name);
    return listed != all_but;
  }
};
/// Keeps the results of operations that satisfy a predicate. A policy object: `checkpoint(save_if(predicate), f, x)`.
template <class Predicate>
struct save_if {
  Predicate predicate;
  constexpr explicit save_if(Predicate p) : predicate(std::move(p)) {}
  constexpr bool saves(const region_op& op) const { return predicate(op); }
};
/// Keeps results that cost at least `Flops` operations per byte; recomputes those that are cheap for their size.
template <std::size_t Flops>
struct save_costly {
  constexpr bool saves(const region_op& op) const { return op.work.flops >= Flops * op.bytes; }
};
/// Keeps the results of operations whose bit (by their number in the region) is set, as a planner chooses: in `bits` on
/// the device, in `offloaded` in host memory. Operations from the 64th on are recomputed.
struct save_numbered {
  std::uint64_t bits = 0;
  std::uint64_t offloaded = 0;
  constexpr bool saves(const region_op& op) const { return has(bits | offloaded, op); }
  constexpr bool offloads(const region_op& op) const { return has(offloaded, op); }

 private:
  static constexpr bool has(std::uint64_t set, const region_op& op) {
    return op.number < 64 && ((set >> op.number) & 1u) != 0;
  }
};

/// A type that selects the results that a checkpoint region keeps.
template <class P>
concept save_policy = requires(const P& p, const region_op& op) {
  { p.saves(op) } -> std::convertible_to<bool>;
};

/// Keeps what `Policy` keeps, in host memory: `offload<save_all>`, or of an object `offload{save_listed{names}}`.
template <save_policy Policy>
struct offload : Policy {
  constexpr offload() = default;
  constexpr explicit offload(Policy p) : Policy(std::move(p)) {}
  constexpr bool offloads(const region_op&) const { return true; }
};
/// Keeps the outputs of the listed operations in host memory.
template <class... Ops>
using offload_only = offload<save_only<Ops...>>;

namespace detail {

// The base class of all policies, so that a region compiles once for all of them.
class any_policy {
 public:
  constexpr any_policy() = default;
  any_policy(const any_policy&) = delete;
  any_policy& operator=(const any_policy&) = delete;
  constexpr virtual ~any_policy() = default;
  constexpr virtual bool saves(const region_op&) = 0;
  /// Whether a result that it saves is kept in host memory.
  constexpr virtual bool offloads(const region_op&) const = 0;
  /// The first listed name that no operation has; empty if there is none.
  constexpr virtual std::string_view missing() const = 0;
  /// Called at the end of the region's forward.
  constexpr virtual void inspect(const region_graph&) = 0;
};
template <class P>
class policy_of final : public any_policy {
 public:
  constexpr explicit policy_of(const P& p) : policy_(p) {}
  // NOLINTNEXTLINE(modernize-use-equals-default): g++ 12 runs no defaulted one in a constant expression
  constexpr ~policy_of() override {}
  constexpr bool saves(const region_op& op) override {
    if constexpr (names_operations)
      for (std::size_t i = 0; i < policy_.names.size() && i < 64; ++i)
        if (op.is(policy_.names[i])) seen_ |= std::uint64_t{1} << i;
    return policy_.saves(op);
  }
  constexpr bool offloads([[maybe_unused]] const region_op& op) const override {
    if constexpr (requires { policy_.offloads(op); }) return policy_.offloads(op);
    else return false;
  }
  constexpr std::string_view missing() const override {
    if constexpr (names_operations)
      for (std::size_t i = 0; i < policy_.names.size() && i < 64; ++i)
        if (((seen_ >> i) & 1u) == 0) return policy_.names[i];
    return {};
  }
  constexpr void inspect(const region_graph& graph) override {
    if constexpr (requires { policy_.inspect(graph); }) policy_.inspect(graph);
  }

 private:
  static constexpr bool names_operations = requires(const P& p) { p.names.size(); };
  const P& policy_;
  std::uint64_t seen_ = 0;  // by name
};

}  // namespace detail

}  // namespace gradus
