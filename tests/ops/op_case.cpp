#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "op_case.hpp"

namespace gradus_test {

namespace {

bool same_bits(const values& a, const values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}
bool same_bits(const outcome& a, const outcome& b) {
  return same_bits(a.y, b.y) &&
         std::equal(a.gradients.begin(), a.gradients.end(), b.gradients.begin(), b.gradients.end(),
                    [](const values& u, const values& v) { return same_bits(u, v); });
}
// Largest error relative to the element plus the mean magnitude of all, plus 0.25: operands have about the size of 1,
// and a sum of them that is close to 0 is as far off as a large one.
double error_of(const values& found, const values& wanted) {
  if (found.size() != wanted.size()) return INFINITY;
  double mean = 0.25, worst = 0;
  for (const double w : wanted) mean += std::abs(w) / static_cast<double>(wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double e = found[i] == wanted[i] ? 0 : std::abs(found[i] - wanted[i]) / (std::abs(wanted[i]) + mean);
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst;
}
std::vector<values> rounded(const op_under_test& to, std::vector<values> all) {
  for (values& x : all) x = to.rounded(std::move(x));
  return all;
}

}  // namespace

std::vector<values> draw(const drawn& how, const std::vector<std::size_t>& sizes) {
  std::mt19937 engine(fresh_seed());
  std::vector<values> all;
  for (const std::size_t size : sizes) {
    values x(size);
    if (how.apart) {  // gaps of 0.01, and none nearer than 0.005 to 0
      std::iota(x.begin(), x.end(), 0.5 - static_cast<double>(size / 2));
      for (double& v : x) v *= 0.01;
      std::shuffle(x.begin(), x.end(), engine);
    } else if (how.low < how.high) {
      std::uniform_real_distribution<double> one(how.low, how.high);
      for (double& v : x) v = one(engine);
    } else {
      std::normal_distribution<double> one(how.offset, 1);
      for (double& v : x) v = one(engine);
    }
    all.push_back(std::move(x));
  }
  return all;
}

void hold(const std::string& name, const drawn& how, const reference_of_values& reference,
          const std::vector<values>& operands, op_under_test* in_double, op_under_test& in_float,
          op_under_test* in_half, const std::string& differences) {
  CAPTURE(name);
  CHECK_MESSAGE(differences.empty(), differences);
  if (in_double != nullptr && reference)
    CHECK(error_of(in_double->run(operands, {}, applied::plainly).y, reference(operands)) < 1e-11);
  const values dy = draw({}, {in_float.run(operands, {}, applied::plainly).y.size()})[0];

  const auto near = [&](op_under_test& op, double within) {
    const auto xs = rounded(op, operands);
    const values of_y = op.rounded(dy);
    const outcome found = op.run(xs, of_y, applied::on_a_tape);
    const outcome wanted = in_double != nullptr ? in_double->run(xs, of_y, applied::on_a_tape) : outcome{};
    CHECK(error_of(found.y, reference ? reference(xs) : wanted.y) < within);
    for (std::size_t i = 0; i < wanted.gradients.size(); ++i) {
      CAPTURE(i);
      CHECK(error_of(found.gradients[i], wanted.gradients[i]) < 4 * within);
    }
    return found;
  };
  if (in_half != nullptr) near(*in_half, 2e-2);
  const outcome found = near(in_float, how.within);

  const auto xs = rounded(in_float, operands);
  const values of_y = in_float.rounded(dy);
  CHECK(same_bits(in_float.run(xs, {}, applied::plainly).y, found.y));
  CHECK(same_bits(in_float.run(xs, of_y, applied::on_a_tape, 3), found));
  CHECK(same_bits(in_float.run(xs, of_y, applied::in_a_region, 3), found));
  const auto alone = [&](applied which, std::size_t operand) {
    const outcome of_one = in_float.run(xs, of_y, which);
    for (std::size_t i = 0; i < of_one.gradients.size(); ++i)
      CHECK(same_bits(of_one.gradients[i], i == operand ? found.gradients[i] : values{}));
  };
  alone(applied::to_a_first_variable, 0);
  alone(applied::to_a_last_variable, operands.size() - 1);
  const outcome of_two = in_float.run(xs, of_y, applied::twice);
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    values doubled = found.gradients[i];
    for (double& v : doubled) v *= 2;
    CHECK(error_of(of_two.gradients[i], doubled) < how.within);
  }
}

}  // namespace gradus_test
