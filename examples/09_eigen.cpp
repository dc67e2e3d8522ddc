// Lesson 9: together with Eigen. A tensor's elements are an Eigen matrix as they lie, so what one library lacks the
// other does. Here Eigen makes the data and solves least squares in closed form, and gradus finds the same line by its
// gradient.

#include <Eigen/Dense>
#include <cstdio>
#include <gradus/gradus.hpp>
#include <gradus/interop/eigen.hpp>

namespace gr = gradus;

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};

  // Points on y = 3 t - 1, and a little noise. from_eigen evaluates an expression straight into a new tensor.
  using column = Eigen::Matrix<float, 50, 1>;
  const column t = column::LinSpaced(-1, 1);
  Eigen::Matrix<float, 50, 2, Eigen::RowMajor> inputs;
  inputs << t, column::Ones();
  auto x = gr::from_eigen(ctx, inputs);
  auto y = gr::from_eigen<gr::shape<50, 1>>(ctx, 3 * t - column::Ones() + 0.01f * (40 * t).array().sin().matrix());
  static_assert(std::is_same_v<decltype(x), gr::tensor<float, gr::shape<50, 2>>>);

  // Eigen sees the tensors' own memory: nothing is copied.
  const Eigen::Vector2f exact = gr::as_eigen(x).colPivHouseholderQr().solve(gr::as_eigen(y));

  auto w = gr::zeros<float, gr::shape<2, 1>>(ctx);
  for (int step = 0; step < 200; ++step) {
    auto v = tape.variable(w);
    auto difference = gr::matmul(x, v) - y;
    gr::backward(gr::mean(difference * difference));
    gr::as_eigen(w) -= 0.3f * gr::as_eigen(v.gradient());  // writes into w
  }
  std::printf("by Eigen: y = %.4f t %+.4f, by descent: y = %.4f t %+.4f\n", static_cast<double>(exact(0)),
              static_cast<double>(exact(1)), static_cast<double>(w(0, 0)), static_cast<double>(w(1, 0)));
  return (gr::as_eigen(w) - exact).norm() < 1e-4f ? 0 : 1;
}
