#pragma once
// What a tape remembers of its checkpoint regions from forward to backward: the fate of each operation.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradus {

/// What running a region again does with an operation: compute it, take what was kept of it, or neither, because
/// nothing that backward needs depends on its output.
enum class fate : unsigned char { compute, take, skip };

/// What depends on what in a region: its operations in order, with the makers of their inputs.
class region_graph {
 public:
  struct operation {
    std::size_t first_maker = 0;  ///< its inputs' makers start here
    unsigned saved_inputs = 0;  ///< inputs that its gradient rule saves, by bit; from the 33rd on, if all bits are set
    bool own_result = false;    ///< its gradient rule needs its output or its statistics
    bool kept = false;          ///< its result is kept from forward
    bool needed = false;        ///< somebody looks at its output outside of any operation
    friend constexpr bool operator==(const operation&, const operation&) = default;
  };
  std::vector<operation> operations;
  std::vector<unsigned>
      makers;  ///< of inputs: the number, from 1, of the operation that made it; 0 for what comes from outside

  constexpr std::size_t size() const { return operations.size(); }
  friend constexpr bool operator==(const region_graph&, const region_graph&) = default;
  /// Tells `becomes(i, fate)` for every operation, from the last to the first. Its `needed` flags are used up.
  template <class F>
  constexpr void decide(const F& becomes) {
    for (std::size_t i = operations.size(); i-- > 0;) {
      const operation& o = operations[i];
      const fate f = !o.needed && !o.own_result ? fate::skip : o.kept ? fate::take : fate::compute;
      becomes(i, f);
      const std::size_t end = i + 1 < operations.size() ? operations[i + 1].first_maker : makers.size();
      for (std::size_t k = o.first_maker; k < end; ++k)
        if (makers[k] != 0 && (f == fate::compute || saves(o, k - o.first_maker)))
          operations[makers[k] - 1].needed = true;
    }
  }
  constexpr void clear() {
    operations.clear();
    makers.clear();
  }

 private:
  static constexpr bool saves(const operation& o, std::size_t input) {
    return input < 32 ? ((o.saved_inputs >> input) & 1u) != 0 : o.saved_inputs == ~0u;
  }
};

/// A number that stands for makers in their order, from that of those before `maker`.
constexpr std::uint64_t next_digest(std::uint64_t digest, unsigned maker) {
  return (digest + maker + 1) * 0x9e3779b97f4a7c15u;
}

/// One operation of an open region.
struct region_entry {
  const void* key = nullptr;  ///< tells operations on operands of different types apart
  std::uint64_t inputs = 0;   ///< digest of its inputs: their makers, and the versions of parameters
  fate becomes = fate::skip;
};

/// Entries of all open regions, region after region; and the graph of the one that runs forward.
class region_log {
 public:
  std::vector<region_entry> entries;
  region_graph graph;

  /// Adds an operation to the region that runs forward; the makers of its inputs follow, in graph.makers.
  constexpr void add(const void* key, std::uint64_t inputs, bool kept, bool own_result, unsigned saved_inputs) {
    entries.push_back({key, inputs, fate::skip});
    graph.operations.push_back({graph.makers.size(), saved_inputs, own_result, kept, false});
  }
  /// Somebody looked at the value that operation `maker` (from 1) made, outside of any operation.
  constexpr void read(unsigned maker) {
    if (maker != 0 && maker <= graph.size()) graph.operations[maker - 1].needed = true;
  }
  /// Ends the region whose entries start at `first`.
  constexpr void decide(std::size_t first) {
    graph.decide([&](std::size_t i, fate f) { entries[first + i].becomes = f; });
    graph.clear();
  }
  constexpr void clear() {
    graph.clear();
    entries.clear();
  }
};

}  // namespace gradus
