#pragma once
// Tensors as Eigen matrices and back. Not part of gradus.hpp: it needs Eigen 3.3 or newer (Debian: libeigen3-dev).
//
// Eigen puts temporaries of compile-time size on the stack and rejects those above 128 KiB, so evaluate products of
// large tensors in matrices of run-time size: `Eigen::MatrixXf m = gr::as_eigen(x);`.

#include <Eigen/Core>
#include <string>
#include <type_traits>

#include "../core/error.hpp"
#include "../core/shape.hpp"
#include "../memory/context.hpp"
#include "../tensor/tensor.hpp"

namespace gradus {

namespace detail {

/// The Eigen type of a tensor: [n] is a column vector, [rows, columns] a row-major matrix, unless it has one column.
template <class T, class Shape>
struct eigen_matrix_of;
template <class T, index_t N>
struct eigen_matrix_of<T, shape<N>> {
  using type = Eigen::Matrix<T, static_cast<int>(N), 1>;
};
template <class T, index_t Rows, index_t Columns>
struct eigen_matrix_of<T, shape<Rows, Columns>> {
  using type = Eigen::Matrix<T, static_cast<int>(Rows), static_cast<int>(Columns),
                             Columns == 1 && Rows != 1 ? Eigen::ColMajor : Eigen::RowMajor>;
};

template <class Shape>
inline constexpr bool has_one_or_two_axes = Shape::rank == 1 || Shape::rank == 2;
template <class Device>
inline constexpr bool is_on_the_cpu = Device::host_addressable;
template <class T>
inline constexpr bool eigen_computes_with = std::is_arithmetic_v<T>;

template <class T, class Shape, class D>
constexpr bool check_for_eigen() {
  static_assert(has_one_or_two_axes<Shape>, "as_eigen(x): x must have one axis or two; reshape it");
  static_assert(is_on_the_cpu<D>, "as_eigen(x): x must be on the CPU");
  static_assert(extents_are_in_the_type<Shape>, "as_eigen(x): the shape of x must not be bounded");
  static_assert(eigen_computes_with<T>, "as_eigen(x): Eigen does not compute with this element type");
  return has_one_or_two_axes<Shape> && is_on_the_cpu<D> && extents_are_in_the_type<Shape> && eigen_computes_with<T>;
}

/// The shape of an Eigen expression; void unless its sizes are known at compile time. Vectors have one axis.
template <class E>
constexpr auto shape_of_expression() {
  constexpr auto rows = E::RowsAtCompileTime, columns = E::ColsAtCompileTime;
  if constexpr (rows == Eigen::Dynamic || columns == Eigen::Dynamic) return;
  else if constexpr (rows == 1 || columns == 1) return shape<static_cast<index_t>(rows * columns)>{};
  else return shape<static_cast<index_t>(rows), static_cast<index_t>(columns)>{};
}
template <class Shape, class E>
using shape_for_expression = std::conditional_t<std::is_void_v<Shape>, decltype(shape_of_expression<E>()), Shape>;
template <class Shape>
inline constexpr bool shape_is_known = !std::is_void_v<Shape>;
template <int OfMatrix, int OfShape>
inline constexpr bool extents_fit = OfMatrix == Eigen::Dynamic || OfMatrix == OfShape;

template <class Shape, class E>
auto evaluate_into_tensor(context<cpu>& ctx, const E& from, category what) {
  using T = typename E::Scalar;
  using M = typename eigen_matrix_of<T, Shape>::type;
  constexpr int rows = M::RowsAtCompileTime, columns = M::ColsAtCompileTime;
  static_assert(extents_fit<E::RowsAtCompileTime, rows>,
                "from_eigen<Shape>(ctx, m): m must have as many rows as Shape");
  static_assert(extents_fit<E::ColsAtCompileTime, columns>,
                "from_eigen<Shape>(ctx, m): m must have as many columns as Shape");
  if constexpr (extents_fit<E::RowsAtCompileTime, rows> && extents_fit<E::ColsAtCompileTime, columns>) {
    if (from.rows() != rows || from.cols() != columns)
      throw error("from_eigen<Shape>(ctx, m): m is " + std::to_string(from.rows()) + " x " +
                  std::to_string(from.cols()) + "; Shape is " + std::to_string(rows) + " x " + std::to_string(columns));
    tensor<T, Shape, cpu> x(ctx, what);
    Eigen::Map<M>(x.data()) = from;
    return x;
  }
}

}  // namespace detail

/// The Eigen matrix type for a tensor of T and Shape.
template <class T, class Shape>
using eigen_matrix = typename detail::eigen_matrix_of<T, Shape>::type;

/// The elements of x as an Eigen matrix of compile-time size, without a copy: [n] as a column vector, [rows, columns]
/// as a row-major matrix. Writing to it changes x and every tensor that shares its elements. The tensor must outlive
/// the map. Throws error if x is empty. Does not compile for temporaries, other devices, or more than two axes.
template <class T, class Shape, class D>
auto as_eigen(tensor<T, Shape, D>& x) {
  if constexpr (detail::check_for_eigen<T, Shape, D>()) {
    x.check_present();
    return Eigen::Map<eigen_matrix<T, Shape>>(x.data());
  }
}
template <class T, class Shape, class D>
auto as_eigen(const tensor<T, Shape, D>& x) {
  if constexpr (detail::check_for_eigen<T, Shape, D>()) {
    x.check_present();
    return Eigen::Map<const eigen_matrix<T, Shape>>(x.data());
  }
}
/// Deleted for temporaries, whose elements would be freed.
template <class T, class Shape, class D>
void as_eigen(const tensor<T, Shape, D>&&) = delete;

/// Evaluates an Eigen expression into a tensor in memory of `ctx`: a vector becomes [n], a matrix [rows, columns]. If
/// its sizes are known only at run time, name the shape: `from_eigen<shape<2, 3>>(ctx, m)` throws error if they differ.
template <class Shape = void, class E>
auto from_eigen(context<cpu>& ctx, const Eigen::DenseBase<E>& from, category what = category::activation) {
  using S = detail::shape_for_expression<Shape, E>;
  static_assert(
      detail::shape_is_known<S>,
      "from_eigen(ctx, m): the size of m is known only at run time; name the shape: from_eigen<shape<...>>(ctx, m)");
  if constexpr (detail::shape_is_known<S>) {
    static_assert(detail::extents_are_in_the_type<S>, "from_eigen<Shape>(ctx, m): Shape must not be bounded");
    if constexpr (S::rank == 1 && E::RowsAtCompileTime == 1)
      return detail::evaluate_into_tensor<S>(ctx, from.derived().transpose(), what);
    else return detail::evaluate_into_tensor<S>(ctx, from.derived(), what);
  }
}

}  // namespace gradus
