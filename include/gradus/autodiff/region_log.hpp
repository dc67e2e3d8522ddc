#pragma once
// What a tape remembers of its checkpoint regions from forward to backward: the fate of each operation.

#include <cstddef>
#include <vector>

namespace gradus {

/// What running a region again does with an operation: compute it, take what was kept of it, or neither, because nothing that
/// backward needs depends on its output.
enum class fate : unsigned char { compute, take, skip };

/// One operation of a region.
struct region_entry {
  const void* key = nullptr;  ///< tells operations on operands of different types apart
  fate becomes = fate::skip;
};

/// Entries of all open regions, region after region; and, while one region runs forward, what depends on what in it.
class region_log {
 public:
  std::vector<region_entry> entries;

  /// Adds an operation to the region that runs forward: who made its inputs (see traced::maker), which of them its gradient
  /// rule saves, and whether it needs its own result.
  template <class... Makers>
  constexpr void add(const void* key, bool kept, bool own_result, unsigned saved_inputs, Makers... makers) {
    entries.push_back({key, fate::skip});
    uses_.push_back({static_cast<unsigned>(makers_.size()), saved_inputs, kept, own_result, false});
    (makers_.push_back(makers), ...);
  }
  /// Somebody looked at the value that operation `maker` (from 1) made, outside of any operation.
  constexpr void read(unsigned maker) {
    if (maker != 0 && maker <= uses_.size()) uses_[maker - 1].needed = true;
  }
  /// Ends the region whose entries start at `first`: decides the fate of its operations, from the last to the first.
  constexpr void decide(std::size_t first) {
    for (std::size_t i = uses_.size(); i-- > 0;) {
      use& u = uses_[i];
      if (u.needed || u.own_result) entries[first + i].becomes = u.kept ? fate::take : fate::compute;
      const bool computed = entries[first + i].becomes == fate::compute;
      const std::size_t end = i + 1 < uses_.size() ? uses_[i + 1].first_maker : makers_.size();
      for (std::size_t k = u.first_maker; k < end; ++k)
        if (makers_[k] != 0 && (computed || ((u.saved_inputs >> (k - u.first_maker)) & 1u) != 0))
          uses_[makers_[k] - 1].needed = true;
    }
    forget();
  }
  constexpr void forget() {
    uses_.clear();
    makers_.clear();
  }
  constexpr void clear() {
    forget();
    entries.clear();
  }

 private:
  struct use {
    unsigned first_maker;
    unsigned saved_inputs;
    bool kept;
    bool own_result;
    bool needed;
  };
  std::vector<use> uses_;
  std::vector<unsigned> makers_;
};

}  // namespace gradus
