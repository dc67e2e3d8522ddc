#pragma once
// AdamW with moments of 8 bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../core/math.hpp"
#include "adamw.hpp"

namespace gradus {

/// The 256 numbers that an 8-bit state can be, densest near 0 (Dettmers et al. 2022, "dynamic tree quantization", in
/// the form of bitsandbytes): for each decade 10^(i-6), i = 0 .. 6, the midpoints between n numbers spread evenly from
/// 0.1 to 1, with n = 2^i + 1, mirrored, where numbers have a sign, and n = 2^(i+1) + 1 else; and 0 and 1.
template <bool Signed>
struct dynamic_map {
  static constexpr unsigned zero = Signed ? 127 : 0;           ///< code of 0; higher codes are of numbers up to 1
  static constexpr unsigned first_of_decade = Signed ? 1 : 2;  ///< n of the least decade
  float value[256] = {};

  constexpr dynamic_map() {
    unsigned code = zero;
    double unit = 1e-6;
    float power = 1;
    for (unsigned i = 0; i < 7; ++i, unit *= 10, power *= 5) {
      const unsigned n = first_of_decade << i;
      decades_[i].rate = static_cast<float>(n / (0.9 * unit));
      decades_[i].first = static_cast<float>(n);
      for (unsigned count = n; count < 2 * n; ++count)
        value[++code] = in_decade(static_cast<float>(count), static_cast<float>(n), power);
    }
    value[255] = 1;
    decades_[7].first = first_of_decade << 7;
    code = zero;
    for (decade& d : decades_) {
      d.above = 0.5f * (value[code] + value[code + 1]);
      code += static_cast<unsigned>(d.first);
    }
    for (unsigned k = 0; Signed && k < zero; ++k) value[k] = -value[2 * zero - k];
  }
  /// The k-th number of decade i, 10^(i-6) (0.1 + 0.9 (k + 0.5) / n): `first` is n, `count` is n + k, and `power` is
  /// 5^i. It is rounded twice on every device.
  template <class V>
  GRADUS_HD static constexpr V in_decade(V count, V first, V power) {
    return (V(18) * count - V(16) * first + V(9)) * (power * V(5e-8f / first_of_decade));
  }
  /// Code of the number nearest to x, -1 <= x <= 1 (0 <= x without sign), never of the other sign. Of two numbers
  /// equally near, up to a part in a million, it is either one. NaN has the code of 0.
  GRADUS_HD constexpr std::uint8_t nearest(float x) const {
    const int steps = static_cast<int>(steps_from_zero(x < 0 ? -x : x));
    const int code = static_cast<int>(zero) + (x < 0 ? -steps : steps);
    return static_cast<std::uint8_t>(code < 0 ? 0 : code);  // there is no -1
  }
  /// Codes between 0 and the number nearest to `size`, with a fraction that the caller truncates.
  template <class V>
  GRADUS_HD constexpr V steps_from_zero(V size) const {
    using math::select;
    V rate(0.0f), first(first_of_decade - 1.0f);
    for (const decade& d : decades_) {
      const auto begun = size > V(d.above);
      rate = select(begun, V(d.rate), rate);
      first = select(begun, V(d.first), first);
    }
    const V last = first + first - V(0.5f);
    V count = size * rate + first * V(8 / 9.0f);
    count = select(count > last, last, count);
    return select(count > first, count, first) - V(first_of_decade - 1.0f);  // NaN gives 0, too
  }

 private:
  // A decade has `first` numbers above `above`, spaced by 1 / rate; first - first_of_decade numbers precede it. The
  // last decade is the number 1 alone.
  struct decade {
    float above = 0, rate = 0, first = 0;
  };
  decade decades_[8] = {};
};
template <bool Signed>
inline constexpr dynamic_map<Signed> dynamic_map_of{};

/// Settings of adamw_8bit; the defaults are adamw's.
struct adamw_8bit_options {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< on matrices only, unless param_settings say otherwise

  static constexpr index_t block = 256;          ///< values that share a scale
  static constexpr index_t least_values = 4096;  ///< tensors with fewer keep their moments in float
  static_assert(piece_unit % block == 0);

  constexpr adamw_options rule() const { return {lr, beta1, beta2, eps, weight_decay}; }
};

/// One tensor of adamw_8bit's kernel: moments in blocks of 8 bits, or in float where `codes` are null.
template <class T, class G>
struct block_span : update_span<T, G> {
  std::uint8_t* codes[2];
  float* states[2];  ///< the largest magnitude in each block; or the moments themselves

  /// `n` of its elements, from number `from` on, which is a multiple of a block.
  block_span cut(index_t from, index_t n) const {
    block_span part = *this;
    static_cast<update_span<T, G>&>(part) = update_span<T, G>::cut(from, n);
    for (std::size_t k = 0; k < 2; ++k) {
      if (codes[k] != nullptr) part.codes[k] += from;
      part.states[k] += codes[k] == nullptr ? from : from / adamw_8bit_options::block;
    }
    return part;
  }
};

namespace op::inline GRADUS_BUILD {
/// One step of AdamW on a list of block_spans.
struct adamw_8bit_step {};
}  // namespace op::inline GRADUS_BUILD

/// AdamW with moments of 8 bits (Dettmers et al. 2022): 256 values share a scale, their largest magnitude, and each
/// value is that scale times one of 256 numbers between -1 and 1. The step is computed in float. A mean of squares
/// above 0 is never coded as 0, because the step divides by its root; if it is not finite, both moments of the element
/// become 0. State: 2.03 bytes a parameter; 8 in tensors under 4096 elements, and in those whose param_settings ask for
/// `float_states`.
/// @tparam T type that parameters are stored in; not double
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
class adamw_8bit : public optimizer_with<adamw_8bit_options, T, D, G> {
  using base = optimizer_with<adamw_8bit_options, T, D, G>;

 public:
  using base::base;
  using base::options;

  /// Updates every parameter that has a gradient, then frees the gradients. The first step allocates the state in
  /// `ctx`.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    make_states(ctx);
    this->prepare(ctx);
    const index_t n = this->params_.total_size(),
                  state = 2 * (sizes_.coded + (sizes_.blocks + sizes_.in_float) * sizeof(float));
    const typename context<D>::running now(
        ctx,
        activity{"adamw_8bit", phase::update, {30 * n, n * (sizeof(T) + sizeof(G)) + state, n * sizeof(T) + state}});
    if constexpr (D::computes) {
      spans_.clear();
      for_places([&](const auto& e, const place& at) {
        if (!e.param->has_gradient()) return;
        spans_.push_back(
            {this->params_.span(e, this->missed()), {at.codes[0], at.codes[1]}, {at.states[0], at.states[1]}});
      });
      const auto update = [&](const std::vector<block_span<T, G>>& spans) {
        kernel<op::adamw_8bit_step, D>::forward(ctx, spans, options, this->inputs());
      };
      if (this->parts_ == nullptr) update(spans_);
      else detail::update_in_parts(*this->parts_, spans_, &add_ranges, update);
    }
    this->finish(ctx);
  }

  /// Divides later steps into parts; see element_optimizer::divide_by.
  void divide_by(update_parts* by) { this->parts_ = by; }

  /// Calls f(named_state) for every state of every parameter: exp_avg and exp_avg_sq, and their scales, exp_avg_absmax
  /// and exp_avg_sq_absmax, one for each block, where they are codes (u8). Missing states are allocated in `ctx`.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    make_states(ctx);
    std::size_t next = 0;
    const std::vector<std::string> names = this->params_.names(model);
    for_places([&](const auto& e, const place& at) {
      const std::string& parameter = names[next++];
      const index_t size = e.param->size(), begin = e.begin, whole = e.whole;
      constexpr std::string_view moments[] = {"exp_avg", "exp_avg_sq"},
                                 scales[] = {"exp_avg_absmax", "exp_avg_sq_absmax"};
      for (std::size_t k = 0; k < 2; ++k) {
        if (at.codes[k] == nullptr) {
          f(named_state<D>{parameter, moments[k], "f32", size, at.states[k], begin, whole});
        } else {
          f(named_state<D>{parameter, moments[k], "u8", size, at.codes[k], begin, whole});
          f(named_state<D>{parameter, scales[k], "f32", blocks_of(size), at.states[k], blocks_of(begin),
                           blocks_of(whole)});
        }
      }
    });
  }

 private:
  // Adds the memory of a span's values and states.
  static void add_ranges(const block_span<T, G>& span, std::vector<memory_range>& to) {
    to.push_back({span.value, span.size * sizeof(T)});
    for (std::size_t k = 0; k < 2; ++k) {
      const bool coded = span.codes[k] != nullptr;
      if (coded) to.push_back({span.codes[k], span.size});
      to.push_back({span.states[k], (coded ? blocks_of(span.size) : span.size) * sizeof(float)});
    }
  }
  // The addresses of a tensor's states.
  struct place {
    std::uint8_t* codes[2] = {};
    float* states[2] = {};
  };
  template <class Entry>
  static constexpr bool in_codes(const Entry& e) {
    return e.whole >= adamw_8bit_options::least_values && !e.settings.float_states;
  }
  static constexpr index_t blocks_of(index_t size) {
    return (size + adamw_8bit_options::block - 1) / adamw_8bit_options::block;
  }
  struct sizes {
    index_t coded = 0, blocks = 0, in_float = 0;
  };
  constexpr sizes count() const {
    static_assert(std::is_same_v<compute_type<T>, float>,
                  "adamw_8bit(model): its step is made in float, not in double");
    sizes all;
    for (const auto& e : this->params_.all()) {
      const index_t size = e.param->size();
      if (in_codes(e)) all.coded += size, all.blocks += blocks_of(size);
      else all.in_float += size;
    }
    return all;
  }
  constexpr void make_states(context<D>& ctx) {
    const typename context<D>::running now(ctx, activity{"adamw_8bit", phase::update, {}});
    for (std::size_t k = 0; k < 2; ++k) {
      if (sizes_.coded > 0) this->template make_state<std::uint8_t>(ctx, codes_[k], sizes_.coded);
      this->template make_state<float>(ctx, states_[k], sizes_.blocks + sizes_.in_float);
    }
  }
  // Calls f(entry, place) for every parameter. The scales and the moments in float lie in the model's order.
  template <class F>
  void for_places(const F& f) {
    index_t code = 0, state = 0;
    for (const auto& e : this->params_.all()) {
      const bool coded = in_codes(e);
      place at;
      for (std::size_t k = 0; k < 2; ++k) {
        if (coded) at.codes[k] = static_cast<std::uint8_t*>(codes_[k].data()) + code;
        at.states[k] = static_cast<float*>(states_[k].data()) + state;
      }
      f(e, at);
      if (coded) code += e.param->size();
      state += coded ? blocks_of(e.param->size()) : e.param->size();
    }
  }

  sizes sizes_ = count();
  std::array<buffer<D>, 2> codes_, states_;
  std::vector<block_span<T, G>> spans_;
};

template <class Model, class Options = adamw_8bit_options, class... Settings>
adamw_8bit(Model&, Options = {}, const Settings&...)
    -> adamw_8bit<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                  typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
