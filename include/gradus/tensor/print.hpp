#pragma once
// Tensors as text. Includes only <iosfwd>: a program that prints to a stream includes its header.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/shape_text.hpp"
#include "param.hpp"
#include "tensor.hpp"

namespace gradus {

/// The format of to_string().
struct print_options {
  int digits = 4;           ///< digits after the decimal point
  index_t limit = 1000;     ///< larger tensors are abbreviated ...
  index_t edge = 3;         ///< ... to this many elements at both ends of each axis
  std::size_t width = 100;  ///< longer rows wrap
};

namespace detail {

/// Formats elements in columns, in the notation that suits all shown elements.
class element_format {
 public:
  element_format(const std::vector<double>& shown, int digits) : digits_(digits) {
    double least = 0, most = 0;
    for (const double x : shown) {
      const double size = std::fabs(x);
      if (!std::isfinite(x)) continue;
      if (x != std::floor(x)) whole_ = false;
      if (size > 0 && (least == 0 || size < least)) least = size;
      if (size > most) most = size;
    }
    scientific_ = whole_ ? most >= 1e9 : most >= 1e8 || (least > 0 && (least < 1e-4 || most / least > 1e6));
    for (const double x : shown) width_ = std::max(width_, (*this)(x).size());
  }
  std::string operator()(double x) const {
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
    const char* form = scientific_ ? "%.*e" : whole_ ? "%.*f." : "%.*f";
    const int digits = whole_ && !scientific_ ? 0 : digits_;
    std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, form, digits, x)), ' ');
    std::snprintf(text.data(), text.size() + 1, form, digits, x);
    return text;
  }
  std::size_t width() const { return width_; }

 private:
  int digits_;
  std::size_t width_ = 0;
  bool whole_ = true;
  bool scientific_ = false;
};

/// Writes the shown elements between brackets.
template <class T, class Shape>
class tensor_printer {
 public:
  tensor_printer(const T* data, const extents_of<Shape>& extents, const print_options& how)
      : data_(data), extents_(extents), how_(how), shorten_(extents.size > how.limit) {
    how_.edge = std::max<index_t>(how_.edge, 1);
    if constexpr (is_floating<T>) {
      std::vector<double> shown;
      visit<0>(0, [&](index_t i) { shown.push_back(static_cast<double>(static_cast<compute_type<T>>(data_[i]))); });
      format_.reset(new element_format(shown, how.digits));
      width_ = format_->width();
    } else {
      visit<0>(0, [&](index_t i) { width_ = std::max(width_, text(data_[i]).size()); });
    }
  }
  std::string operator()() {
    write<0>(0);
    return std::move(out_);
  }

 private:
  std::string text(T x) const {
    if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
    else if constexpr (is_floating<T>) return (*format_)(static_cast<double>(static_cast<compute_type<T>>(x)));
    else return std::to_string(x);
  }
  // Calls f(position, gap) for the shown positions of an axis; `gap` is true after omitted ones.
  template <class F>
  void positions(index_t extent, const F& f) const {
    const bool gap = shorten_ && extent > 2 * how_.edge;
    for (index_t i = 0; i < extent; ++i) {
      if (gap && i == how_.edge) i = extent - how_.edge;
      f(i, gap && i == extent - how_.edge);
    }
  }
  template <index_t Axis, class F>
  void visit(index_t at, const F& f) const {
    if constexpr (Axis == Shape::rank) {
      f(at);
    } else {
      const index_t extent = extents_.extents[Axis];
      positions(extent, [&](index_t i, bool) { visit<Axis + 1>(at * extent + i, f); });
    }
  }
  template <index_t Axis>
  void write(index_t at) {
    if constexpr (Axis == Shape::rank) {
      const std::string element = text(data_[at]);
      out_.append(width_ - element.size(), ' ');
      out_ += element;
    } else {
      const index_t extent = extents_.extents[Axis];
      out_ += '[';
      positions(extent, [&](index_t i, bool gap) {
        if (gap) {
          separate<Axis>(3);
          out_ += "...";
        }
        if (i > 0) separate<Axis>(width_);
        write<Axis + 1>(at * extent + i);
      });
      out_ += ']';
    }
  }
  // Writes a comma, then a blank within a row, or one line end per axis of the blocks.
  template <index_t Axis>
  void separate(std::size_t next) {
    out_ += ',';
    const std::size_t line = out_.size() - (out_.rfind('\n') + 1);  // npos + 1 is 0
    if constexpr (Axis + 1 == Shape::rank) {
      if (line + next + 2 <= how_.width) {
        out_ += ' ';
        return;
      }
      out_ += '\n';
    } else {
      out_.append(Shape::rank - 1 - Axis, '\n');
    }
    out_.append(Axis + 1, ' ');
  }

  const T* data_;
  extents_of<Shape> extents_;
  print_options how_;
  bool shorten_;
  std::unique_ptr<element_format> format_;
  std::size_t width_ = 0;
  std::string out_;
};

template <class X>
concept carries_tensor = !is_tensor<X> && requires(const X& x) {
  typename X::tensor_type;
  requires is_tensor<std::remove_cvref_t<decltype(x.value())>>;
};

}  // namespace detail

/// The elements in nested brackets, in columns, then element type and shape. Waits for the device.
/// ```text
/// [[1., 2.],
///  [3., 4.]] f32 shape<2, 2>
/// ```
template <class T, class Shape, class D>
std::string to_string(const tensor<T, Shape, D>& t, const print_options& how = {}) {
  std::string text;
  if (!t.storage()) {
    text = "empty";
  } else if constexpr (!D::computes) {
    text = "meta";
  } else if constexpr (D::host_addressable) {
    text = detail::tensor_printer<T, Shape>(t.data(), t.extents(), how)();
  } else {
    const std::unique_ptr<T[]> host(new T[t.extents().size]);
    device_access<D>::download(t.owner(), host.get(), t.data(), t.extents().size * sizeof(T));
    text = detail::tensor_printer<T, Shape>(host.get(), t.extents(), how)();
  }
  return text + " " + std::string(dtype_name<T>()) + " " + detail::shape_text<Shape>(t.extents());
}

/// The tensor of a parameter or traced value, and the word `param` or `traced`.
template <detail::carries_tensor X>
std::string to_string(const X& x, const print_options& how = {}) {
  if constexpr (is_param<X>) return to_string(x.value(), how) + " param";
  else if constexpr (requires { x.recorder(); }) return to_string(x.value(), how) + " traced";
  else return to_string(x.value(), how);
}

/// Writes to_string(x).
template <class Char, class Traits, class X>
  requires(is_tensor<X> || detail::carries_tensor<X>)
std::basic_ostream<Char, Traits>& operator<<(std::basic_ostream<Char, Traits>& out, const X& x) {
  return out << std::string_view(to_string(x));
}

}  // namespace gradus
