#pragma once
// The training step that the build defines.

#include <type_traits>

#include "config.hpp"
#include "preferences.hpp"
#include "training.hpp"

namespace gpt {

template <class D>
using trainer_on =
    std::conditional_t<preferences, preference_training<D, sizes, precision, optimizer, adapter_rank, base_storage>,
                       training<D, sizes, batch_size, token, precision, optimizer, adapter_rank, packed, base_storage>>;

/// Sets the beta of a trainer on preferences; others have none.
template <class Trainer>
void set_beta(Trainer& t, double beta) {
  if constexpr (preferences) t.beta = beta;
}

}  // namespace gpt
