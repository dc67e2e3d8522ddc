#pragma once
// Pieces of parameters: what an optimizer takes in place of a model, so that ranks can share its states.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../model/parameters.hpp"
#include "../tensor/param.hpp"
#include "model_traits.hpp"

namespace gradus {

/// Pieces begin at multiples of this many elements of their parameter. It is a multiple of what optimizers treat
/// together: blocks of 8-bit states, partial sums of the gradients' norm, draws of stochastic rounding.
inline constexpr index_t piece_unit = 4096;

/// The elements [begin, begin + size) of one parameter.
struct piece_range {
  index_t number;  ///< of the parameter, in the model's order
  index_t begin, size;
  bool operator==(const piece_range&) const = default;
};

/// A range of a parameter's elements, as an optimizer sees it: a param_base whose rank and extents are the parameter's.
/// Values and gradient are in the parameter's memory, or in memory of its own.
/// @tparam T type of values
/// @tparam G type of gradients
template <class T, class D, class G = T>
class param_piece final : public param_base<T, G, D> {
 public:
  using param_type = param_base<T, G, D>;

  /// The whole parameter, which has this number in its model.
  constexpr param_piece(param_type& of, index_t number) : of_(&of), range_{number, 0, of.size()} {}
  /// A range of a whole parameter.
  constexpr param_piece(param_piece& whole, const piece_range& range) : of_(whole.of_), range_(range), whole_(&whole) {}

  constexpr const piece_range& range() const { return range_; }
  constexpr bool is_whole() const { return range_.size == of_->size(); }
  constexpr index_t size() const override { return range_.size; }
  constexpr index_t rank() const override { return of_->rank(); }
  constexpr index_t extent(index_t axis) const override { return of_->extent(axis); }
  constexpr bool is_matrix() const override { return of_->is_matrix(); }

  /// Puts the values at `values`, range().size elements on the device; null: in the parameter. The parameter does not
  /// change with values of the piece's own.
  constexpr void set_value_storage(T* values) { value_ = values; }
  constexpr T* value_storage() const { return value_; }  ///< null: in the parameter
  /// Puts the gradient at `gradient`, range().size elements on the device, until the next call. `present` says, until
  /// the next clear_gradient(), that the parameter has a gradient: of all its pieces, whatever its slot holds.
  constexpr void set_gradient_storage(const G* gradient, bool present) {
    gradient_ = gradient;
    param_piece& whole = whole_ == nullptr ? *this : *whole_;
    whole.own_gradient_ = own_gradient_ = true;
    whole.present_ = present;
  }

  constexpr T* edit_data() override {
    if (value_ != nullptr) return value_;
    T* const all = of_->edit_data();
    return all == nullptr ? nullptr : all + range_.begin;
  }
  constexpr const G* gradient_data() const override {
    if (!has_gradient()) return nullptr;
    if (own_gradient_) return gradient_;
    const G* const all = of_->gradient_data();
    return all == nullptr ? nullptr : all + range_.begin;
  }
  constexpr bool has_gradient() const override {
    if (whole_ != nullptr) return whole_->has_gradient();
    return own_gradient_ ? present_ : of_->has_gradient();
  }
  /// Of all pieces of the parameter: clears its slot, or, after set_gradient_storage, marks the gradient as absent.
  constexpr void track_rows() override {
    throw error("param_pieces: param_settings.rows_only is for optimizers of a whole model");
  }
  constexpr void clear_gradient() const override {
    if (whole_ != nullptr) whole_->clear_gradient();
    else if (own_gradient_) present_ = false;
    else of_->clear_gradient();
  }

  // Of the whole parameter.
  constexpr buffer<D> storage() const override { return of_->storage(); }
  constexpr void set_storage(buffer<D> storage) override { of_->set_storage(std::move(storage)); }
  constexpr void mark_changed() override { of_->mark_changed(); }
  constexpr void evict_computed() const override { of_->evict_computed(); }

 private:
  param_type* of_;
  piece_range range_;
  param_piece* whole_ = nullptr;  // null: this one
  T* value_ = nullptr;
  const G* gradient_ = nullptr;
  bool own_gradient_ = false;
  mutable bool present_ = false;  // of a whole parameter whose gradient is not in its slot
};

/// Pieces of a model's parameters: an optimizer or weight_average that is made of it, in place of the model, updates
/// these elements and has states for them alone. Every element gets the bits that it gets from an optimizer of the
/// whole model. The model and this object must outlive the optimizer; the model must not move.
///
///     gr::param_pieces mine(net, {{.number = 0, .begin = 4096, .size = 4096}});
///     gr::adamw optimizer{mine, {.lr = 1e-3}};
template <class T, class D, class G = T>
class param_pieces {
 public:
  using value_type = T;
  using gradient_value_type = G;
  using device = D;
  using piece = param_piece<T, D, G>;

  /// Throws error unless `ranges` are in the model's order, do not overlap, have elements, and begin and end at
  /// multiples of piece_unit or at the parameter's end.
  template <class Model>
  constexpr param_pieces(Model& model, const std::vector<piece_range>& ranges) {
    visit_trained(model, [&](auto& p) { wholes_.emplace_back(p, wholes_.size()); });
    if (!std::is_constant_evaluated()) names_ = trained_names(model);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const piece_range& r = ranges[i];
      check(r);
      pieces_.emplace_back(wholes_[r.number], r);
    }
  }
  param_pieces(const param_pieces&) = delete;
  param_pieces& operator=(const param_pieces&) = delete;
  constexpr param_pieces(param_pieces&&) noexcept = default;
  constexpr param_pieces& operator=(param_pieces&&) noexcept = default;

  constexpr std::vector<piece>& all() { return pieces_; }
  constexpr const std::vector<piece>& all() const { return pieces_; }
  /// The model's parameters, each as one piece. To say that a parameter has a gradient though its slot is empty and no
  /// piece of it is here: wholes()[number].set_gradient_storage(nullptr, true).
  constexpr std::vector<piece>& wholes() { return wholes_; }
  constexpr const std::vector<piece>& wholes() const { return wholes_; }
  /// Names of the model's parameters, as for_each_param passes them; none in a constant expression.
  constexpr const std::vector<std::string>& names() const { return names_; }

 private:
  constexpr void check(const piece_range& r) const {
    const auto fail = [&](const std::string& what) {
      throw error("param_pieces(model, ranges): the piece [" + std::to_string(r.begin) + ", " +
                  std::to_string(r.begin + r.size) + ") of parameter " + std::to_string(r.number) + " " + what);
    };
    if (r.number >= wholes_.size()) fail("is of none: the model has " + std::to_string(wholes_.size()));
    const index_t whole = wholes_[r.number].size();
    if (r.size == 0 || r.begin >= whole || r.size > whole - r.begin)
      fail("is not within its " + std::to_string(whole) + " elements, or is empty");
    if (r.begin % piece_unit != 0 || (r.size % piece_unit != 0 && r.begin + r.size != whole))
      fail("must begin and end at multiples of " + std::to_string(piece_unit) + ", or at the parameter's end");
    if (pieces_.empty()) return;
    const piece_range& before = pieces_.back().range();
    if (r.number < before.number || (r.number == before.number && r.begin < before.begin + before.size))
      fail("must follow the piece before it in the model's order");
  }

  std::vector<piece> wholes_, pieces_;
  std::vector<std::string> names_;
};

template <class Model>
param_pieces(Model&, const std::vector<piece_range>&)
    -> param_pieces<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                    typename model_traits<Model>::gradient_value_type>;

template <class Model>
inline constexpr bool is_param_pieces = false;
template <class T, class D, class G>
inline constexpr bool is_param_pieces<param_pieces<T, D, G>> = true;

namespace detail {
template <class T, class D, class G>
struct kind_of_parameters<param_pieces<T, D, G>> {
  using type = param_kind<T, D, G>;
};
}  // namespace detail

/// The name of each piece's parameter.
template <class T, class D, class G>
std::vector<std::string> trained_names(const param_pieces<T, D, G>& pieces) {
  std::vector<std::string> names;
  for (const auto& p : pieces.all()) names.push_back(pieces.names()[p.range().number]);
  return names;
}

}  // namespace gradus
