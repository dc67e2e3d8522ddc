// Operations as they are defined: plain loops over doubles, with extents that are known at run time. They share nothing
// with the library, and are compiled once, whatever shapes a test has.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace gradus_test {

using values = std::vector<double>;

/// Output of an operation, and the gradients of its operands for the gradient dy of the output; empty for an integer
/// operand.
struct outcome {
  values y;
  std::vector<values> gradients;
};

}  // namespace gradus_test

namespace gradus_test::reference {

using extents = std::vector<std::size_t>;

inline std::size_t size_of(const extents& shape) {
  std::size_t n = 1;
  for (const std::size_t e : shape) n *= e;
  return n;
}
/// Index along each axis of element i, in row-major order.
inline extents place_of(std::size_t i, const extents& shape) {
  extents place(shape.size());
  for (std::size_t a = shape.size(); a-- > 0; i /= shape[a]) place[a] = i % shape[a];
  return place;
}
inline std::size_t element_at(const extents& place, const extents& shape) {
  std::size_t i = 0;
  for (std::size_t a = 0; a < shape.size(); ++a) i = i * shape[a] + place[a];
  return i;
}

// ---- one element from one element each ------------------------------------------------------------------------------

/// y = f(x), where derivative(x) is dy/dx.
inline outcome unary(const values& x, const values& dy, double (*f)(double), double (*derivative)(double)) {
  outcome r{values(x.size()), {values(x.size())}};
  for (std::size_t i = 0; i < x.size(); ++i) {
    r.y[i] = f(x[i]);
    r.gradients[0][i] = dy[i] * derivative(x[i]);
  }
  return r;
}

/// Shape of what two shapes broadcast to, as NumPy has it.
inline extents broadcast(extents a, extents b) {
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (std::size_t k = 0; k < a.size(); ++k) a[k] = std::max(a[k], b[k]);
  return a;
}
/// Element of an operand of shape `from` that element i of a result of shape `to` is computed from.
inline std::size_t broadcast_from(std::size_t i, const extents& to, const extents& from) {
  extents place = place_of(i, to);
  place.erase(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(to.size() - from.size()));
  for (std::size_t a = 0; a < from.size(); ++a)
    if (from[a] == 1) place[a] = 0;
  return element_at(place, from);
}
/// y = f(a, b), broadcast; derivatives(a, b) are dy/da and dy/db. Without dy, the output alone.
inline outcome binary(const extents& shape_a, const extents& shape_b, const values& a, const values& b,
                      const values& dy, double (*f)(double, double),
                      std::pair<double, double> (*derivatives)(double, double)) {
  const extents shape = broadcast(shape_a, shape_b);
  outcome r{values(size_of(shape)), {values(a.size()), values(b.size())}};
  for (std::size_t i = 0; i < r.y.size(); ++i) {
    const std::size_t at_a = broadcast_from(i, shape, shape_a), at_b = broadcast_from(i, shape, shape_b);
    r.y[i] = f(a[at_a], b[at_b]);
    if (dy.empty()) continue;
    const auto [da, db] = derivatives(a[at_a], b[at_b]);
    r.gradients[0][at_a] += dy[i] * da;
    r.gradients[1][at_b] += dy[i] * db;
  }
  return r;
}

// ---- elements that move ---------------------------------------------------------------------------------------------

/// y[i] = x[from[i]].
inline outcome moved(const std::vector<std::size_t>& from, const values& x, const values& dy) {
  outcome r{{}, {values(x.size())}};
  for (std::size_t i = 0; i < from.size(); ++i) {
    r.y.push_back(x[from[i]]);
    if (!dy.empty()) r.gradients[0][from[i]] += dy[i];
  }
  return r;
}
/// Axis a of a result is axis order[a] of the operand: `from` of moved().
inline std::vector<std::size_t> permuted(const extents& shape, const std::vector<std::size_t>& order) {
  extents to;
  for (const std::size_t a : order) to.push_back(shape[a]);
  std::vector<std::size_t> from(size_of(shape));
  for (std::size_t i = 0; i < from.size(); ++i) {
    const extents place = place_of(i, to);
    extents there(shape.size());
    for (std::size_t a = 0; a < order.size(); ++a) there[order[a]] = place[a];
    from[i] = element_at(there, shape);
  }
  return from;
}
/// Elements first .. first + count - 1 of one axis: `from` of moved().
inline std::vector<std::size_t> sliced(const extents& shape, std::size_t axis, std::size_t first, std::size_t count) {
  std::vector<std::size_t> from;
  for (std::size_t i = 0; i < size_of(shape); ++i) {
    const std::size_t k = place_of(i, shape)[axis];
    if (k >= first && k < first + count) from.push_back(i);
  }
  return from;
}
/// Row tokens[i] of a table of `width` columns.
inline outcome embedding(std::size_t width, const values& tokens, const values& table, const values& dy) {
  std::vector<std::size_t> from;
  for (const double t : tokens)
    for (std::size_t c = 0; c < width; ++c) from.push_back(static_cast<std::size_t>(t) * width + c);
  outcome r = moved(from, table, dy);
  r.gradients.insert(r.gradients.begin(), values{});
  return r;
}

// ---- sums ------------------------------------------------------------------------------------------------------------

/// Elements that become each output of a reduction over `axes`, in row-major order.
inline std::vector<std::vector<std::size_t>> groups(const extents& shape, const std::vector<std::size_t>& axes) {
  extents kept = shape;
  for (const std::size_t a : axes) kept[a] = 1;
  std::vector<std::vector<std::size_t>> all(size_of(kept));
  for (std::size_t i = 0; i < size_of(shape); ++i) {
    extents place = place_of(i, shape);
    for (const std::size_t a : axes) place[a] = 0;
    all[element_at(place, kept)].push_back(i);
  }
  return all;
}
inline double sum_of(const values& x, const std::vector<std::size_t>& group) {
  double sum = 0;
  for (const std::size_t i : group) sum += x[i];
  return sum;
}
inline double variance_of(const values& x, const std::vector<std::size_t>& group) {
  const double n = static_cast<double>(group.size()), mean = sum_of(x, group) / n;
  double sum = 0;
  for (const std::size_t i : group) sum += (x[i] - mean) * (x[i] - mean) / n;
  return sum;
}
/// Place of the first largest element within a group; NaN is larger than all.
inline std::size_t largest_of(const values& x, const std::vector<std::size_t>& group) {
  std::size_t place = 0;
  for (std::size_t k = 1; k < group.size() && !std::isnan(x[group[place]]); ++k)
    if (x[group[k]] > x[group[place]] || std::isnan(x[group[k]])) place = k;
  return place;
}
/// Place of the first smallest element within a group; NaN is smaller than all.
inline std::size_t smallest_of(const values& x, const std::vector<std::size_t>& group) {
  std::size_t place = 0;
  for (std::size_t k = 1; k < group.size() && !std::isnan(x[group[place]]); ++k)
    if (x[group[k]] < x[group[place]] || std::isnan(x[group[k]])) place = k;
  return place;
}

enum class reduction { sum, mean, variance, max };
/// A reduction of x over groups(...).
inline outcome reduce(reduction what, const std::vector<std::vector<std::size_t>>& groups, const values& x,
                      const values& dy) {
  outcome r{{}, {values(x.size())}};
  for (std::size_t o = 0; o < groups.size(); ++o) {
    const auto& group = groups[o];
    const double n = static_cast<double>(group.size()), sum = sum_of(x, group);
    if (what == reduction::sum) r.y.push_back(sum);
    if (what == reduction::mean) r.y.push_back(sum / n);
    if (what == reduction::variance) r.y.push_back(variance_of(x, group));
    if (what == reduction::max) {
      const std::size_t i = group[largest_of(x, group)];
      r.y.push_back(x[i]);
      r.gradients[0][i] += dy[o];
    } else {
      for (const std::size_t i : group)
        r.gradients[0][i] += what == reduction::sum    ? dy[o]
                             : what == reduction::mean ? dy[o] / n
                                                       : dy[o] * 2 * (x[i] - sum / n) / n;
    }
  }
  return r;
}

/// One matrix product of m x n, of k terms; `a` is stored k x m if transposed, and b n x k.
struct product {
  std::size_t m, k, n;
  bool a_transposed = false, b_transposed = false;
  std::size_t at_a(std::size_t i, std::size_t l) const { return a_transposed ? l * m + i : i * k + l; }
  std::size_t at_b(std::size_t l, std::size_t j) const { return b_transposed ? j * k + l : l * n + j; }
};
/// `batches` products; b may have only one matrix, which serves for all. Without dy, the output alone.
inline outcome matmul(const product& p, std::size_t batches, const values& a, const values& b, const values& dy = {}) {
  outcome r{values(batches * p.m * p.n), {values(a.size()), values(b.size())}};
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const std::size_t a0 = batch * p.m * p.k, b0 = b.size() == p.k * p.n ? 0 : batch * p.k * p.n;
    for (std::size_t i = 0; i < p.m; ++i)
      for (std::size_t j = 0; j < p.n; ++j) {
        const std::size_t out = (batch * p.m + i) * p.n + j;
        for (std::size_t l = 0; l < p.k; ++l) {
          const std::size_t of_a = a0 + p.at_a(i, l), of_b = b0 + p.at_b(l, j);
          r.y[out] += a[of_a] * b[of_b];
          if (dy.empty()) continue;
          r.gradients[0][of_a] += dy[out] * b[of_b];
          r.gradients[1][of_b] += dy[out] * a[of_a];
        }
      }
  }
  return r;
}
/// x w + b.
inline outcome linear(std::size_t rows, std::size_t in, std::size_t out, const values& x, const values& w,
                      const values& b, const values& dy) {
  outcome r = matmul({rows, in, out}, 1, x, w, dy);
  r.gradients.emplace_back(out);
  for (std::size_t i = 0; i < rows * out; ++i) {
    r.y[i] += b[i % out];
    r.gradients[2][i % out] += dy[i];
  }
  return r;
}

// ---- convolutions ---------------------------------------------------------------------------------------------------

/// A convolution of images [batch, channels, high, wide] with filters [filters, channels / groups, kernel_y, kernel_x].
struct convolution {
  std::size_t batch, channels, high, wide, filters, kernel_y, kernel_x;
  std::size_t stride_y = 1, stride_x = 1, padding_y = 0, padding_x = 0, dilation_y = 1, dilation_x = 1, groups = 1;

  std::size_t out_y() const { return (high + 2 * padding_y - dilation_y * (kernel_y - 1) - 1) / stride_y + 1; }
  std::size_t out_x() const { return (wide + 2 * padding_x - dilation_x * (kernel_x - 1) - 1) / stride_x + 1; }
  /// Calls f(y, x, w) with the elements of result, image and filters that meet.
  template <class F>
  void for_products(const F& f) const {
    const std::size_t depth = channels / groups, of_group = filters / groups;
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t o = 0; o < filters; ++o)
        for (std::size_t i = 0; i < out_y(); ++i)
          for (std::size_t j = 0; j < out_x(); ++j)
            for (std::size_t c = 0; c < depth; ++c)
              for (std::size_t k = 0; k < kernel_y; ++k)
                for (std::size_t l = 0; l < kernel_x; ++l) {
                  const std::size_t y = i * stride_y + k * dilation_y, x = j * stride_x + l * dilation_x;
                  if (y < padding_y || x < padding_x || y - padding_y >= high || x - padding_x >= wide) continue;
                  f(((b * filters + o) * out_y() + i) * out_x() + j,
                    ((b * channels + o / of_group * depth + c) * high + y - padding_y) * wide + x - padding_x,
                    ((o * depth + c) * kernel_y + k) * kernel_x + l);
                }
  }
};
/// The convolution of x with w, plus a bias b for each filter.
inline outcome conv(const convolution& p, const values& x, const values& w, const values& b, const values& dy) {
  const std::size_t positions = p.out_y() * p.out_x();
  outcome r{values(p.batch * p.filters * positions), {values(x.size()), values(w.size()), values(b.size())}};
  for (std::size_t i = 0; i < r.y.size(); ++i) {
    r.y[i] = b[i / positions % p.filters];
    r.gradients[2][i / positions % p.filters] += dy[i];
  }
  p.for_products([&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
    r.y[at_y] += x[at_x] * w[at_w];
    r.gradients[0][at_x] += dy[at_y] * w[at_w];
    r.gradients[1][at_w] += dy[at_y] * x[at_x];
  });
  return r;
}
/// The transposed one: from images of the size of p's result to images of the size of p's.
inline outcome conv_transpose(const convolution& p, const values& x, const values& w, const values& b,
                              const values& dy) {
  const std::size_t positions = p.high * p.wide;
  outcome r{values(p.batch * p.channels * positions), {values(x.size()), values(w.size()), values(b.size())}};
  for (std::size_t i = 0; i < r.y.size(); ++i) {
    r.y[i] = b[i / positions % p.channels];
    r.gradients[2][i / positions % p.channels] += dy[i];
  }
  p.for_products([&](std::size_t at_x, std::size_t at_y, std::size_t at_w) {
    r.y[at_y] += x[at_x] * w[at_w];
    r.gradients[0][at_x] += dy[at_y] * w[at_w];
    r.gradients[1][at_w] += dy[at_y] * x[at_x];
  });
  return r;
}

// ---- rows ------------------------------------------------------------------------------------------------------------

/// layer_norm, or rms_norm where not `centred` (which has no bias: its gradient is to be ignored).
inline outcome norm(bool centred, std::size_t columns, const values& x, const values& w, const values& b,
                    const values& dy, double eps = 1e-5) {
  outcome r{values(x.size()), {values(x.size()), values(columns), values(columns)}};
  const double n = static_cast<double>(columns);
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double mean = 0, var = 0;
    for (std::size_t c = 0; centred && c < columns; ++c) mean += x[row + c] / n;
    for (std::size_t c = 0; c < columns; ++c) var += (x[row + c] - mean) * (x[row + c] - mean) / n;
    const double rstd = 1 / std::sqrt(var + eps);
    double mean_g = 0, mean_gx = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const double normal = (x[row + c] - mean) * rstd, d = dy[row + c];
      r.y[row + c] = normal * w[c] + (centred ? b[c] : 0);
      r.gradients[1][c] += d * normal;
      r.gradients[2][c] += d;
      mean_g += centred ? d * w[c] / n : 0;
      mean_gx += d * w[c] * normal / n;
    }
    for (std::size_t c = 0; c < columns; ++c)
      r.gradients[0][row + c] = rstd * (dy[row + c] * w[c] - mean_g - (x[row + c] - mean) * rstd * mean_gx);
  }
  return r;
}

/// softmax of each row, or its logarithm. Without dy, the output alone.
inline outcome softmax(bool logarithm, std::size_t columns, const values& x, const values& dy = {}) {
  outcome r{values(x.size()), {values(x.size())}};
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double top = -INFINITY, sum = 0, dot = 0;
    for (std::size_t c = 0; c < columns; ++c) top = std::max(top, x[row + c]);
    for (std::size_t c = 0; c < columns; ++c) sum += std::exp(x[row + c] - top);
    const auto p = [&](std::size_t c) { return std::exp(x[row + c] - top) / sum; };
    for (std::size_t c = 0; c < columns; ++c) {
      r.y[row + c] = logarithm ? x[row + c] - top - std::log(sum) : p(c);
      if (!dy.empty()) dot += dy[row + c] * (logarithm ? 1 : p(c));
    }
    for (std::size_t c = 0; !dy.empty() && c < columns; ++c)
      r.gradients[0][row + c] = logarithm ? dy[row + c] - p(c) * dot : p(c) * (dy[row + c] - dot);
  }
  return r;
}

/// Mean over the rows whose target is not `ignore`; columns from `vocabulary` on are padding.
inline outcome cross_entropy(std::size_t vocabulary, const values& x, const values& targets, double ignore = -1,
                             double dy = 1) {
  const std::size_t columns = x.size() / targets.size();
  outcome r{values(1), {values(x.size()), {}}};
  double count = 0;
  for (const double t : targets) count += t != ignore;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignore) continue;
    const std::size_t row = i * columns, target = static_cast<std::size_t>(targets[i]);
    double top = x[row], sum = 0;
    for (std::size_t c = 0; c < vocabulary; ++c) top = std::max(top, x[row + c]);
    for (std::size_t c = 0; c < vocabulary; ++c) sum += std::exp(x[row + c] - top);
    r.y[0] += (std::log(sum) + top - x[row + target]) / count;
    for (std::size_t c = 0; c < vocabulary; ++c)
      r.gradients[0][row + c] = dy * (std::exp(x[row + c] - top) / sum - (c == target)) / count;
  }
  return r;
}
/// Mean cross-entropy of logits x table^T over the rows whose target is not `ignore`.
inline outcome linear_cross_entropy(std::size_t vocabulary, const values& x, const values& table, const values& targets,
                                    double ignore = -1, double dy = 1) {
  const std::size_t rows = targets.size(), width = x.size() / rows;
  const product p{rows, width, table.size() / width, false, true};
  const values logits = matmul(p, 1, x, table).y;
  const outcome loss = cross_entropy(vocabulary, logits, targets, ignore, dy);
  outcome r{loss.y, matmul(p, 1, x, table, loss.gradients[0]).gradients};
  r.gradients.emplace_back();
  return r;
}

// ---- attention -------------------------------------------------------------------------------------------------------

/// softmax(q k^T / sqrt(depth)) v of `matrices` matrices q (queries x depth), k and v (keys x depth). If `causal`, a
/// query sees the keys up to its own number.
inline outcome attention(bool causal, std::size_t matrices, std::size_t depth, const values& q, const values& k,
                         const values& v, const values& dy) {
  const std::size_t queries = q.size() / matrices / depth, keys = k.size() / matrices / depth;
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  outcome r{values(q.size()), {values(q.size()), values(k.size()), values(v.size())}};
  values &dq = r.gradients[0], &dk = r.gradients[1], &dv = r.gradients[2];
  for (std::size_t row = 0; row < matrices * queries; ++row) {
    const std::size_t q0 = row * depth, k0 = row / queries * keys * depth;
    const std::size_t seen = causal ? std::min(keys, row % queries + 1) : keys;
    values score(seen), dp(seen);
    for (std::size_t j = 0; j < seen; ++j)
      for (std::size_t d = 0; d < depth; ++d) score[j] += scale * q[q0 + d] * k[k0 + j * depth + d];
    const values p = softmax(false, seen, score).y;
    for (std::size_t j = 0; j < seen; ++j)
      for (std::size_t d = 0; d < depth; ++d) {
        r.y[q0 + d] += p[j] * v[k0 + j * depth + d];
        dp[j] += dy[q0 + d] * v[k0 + j * depth + d];
        dv[k0 + j * depth + d] += p[j] * dy[q0 + d];
      }
    const values ds = softmax(false, seen, score, dp).gradients[0];
    for (std::size_t j = 0; j < seen; ++j)
      for (std::size_t d = 0; d < depth; ++d) {
        dq[q0 + d] += scale * ds[j] * k[k0 + j * depth + d];
        dk[k0 + j * depth + d] += scale * ds[j] * q[q0 + d];
      }
  }
  return r;
}
/// Causal attention of queries, keys and values in one tensor: batch x length x 3 x heads x depth.
inline outcome causal_attention(std::size_t batch, std::size_t length, std::size_t heads, std::size_t depth,
                                const values& x, const values& dy) {
  // Element of x, or, of one part alone, of y, for each element of heads x length x depth.
  const auto places = [&](std::size_t parts, std::size_t part) {
    std::vector<std::size_t> from;
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t t = 0; t < length; ++t)
          for (std::size_t d = 0; d < depth; ++d)
            from.push_back((((b * length + t) * parts + part) * heads + h) * depth + d);
    return from;
  };
  const auto out = places(1, 0);
  const outcome apart = attention(true, batch * heads, depth, moved(places(3, 0), x, {}).y,
                                  moved(places(3, 1), x, {}).y, moved(places(3, 2), x, {}).y, moved(out, dy, {}).y);
  outcome r{values(dy.size()), {values(x.size())}};
  for (std::size_t i = 0; i < out.size(); ++i) r.y[out[i]] = apart.y[i];
  for (std::size_t part = 0; part < 3; ++part) {
    const auto from = places(3, part);
    for (std::size_t i = 0; i < from.size(); ++i) r.gradients[0][from[i]] = apart.gradients[part][i];
  }
  return r;
}

// ---- recurrent layers -----------------------------------------------------------------------------------------------

/// What lstm and gru compute: gates [B, T, G*H], w [H, G*H], the bias of gru [G*H] (empty: lstm), states [B, H] (c is
/// empty for gru), and steps in each row. Gradients are of gates, w, bias, h and c.
struct recurrence {
  std::size_t batch, time, width;
  values gates, w, bias, h, c;
  std::vector<std::size_t> lengths;
  bool reversed = false;

  bool is_lstm() const { return bias.empty(); }
  std::size_t all() const { return (is_lstm() ? 4 : 3) * width; }

  /// For the gradients dy of y and dc of the last c (empty: 0). The result is y, [B, T, H], and then c.
  outcome run(const values& dy, const values& dc_last) const {
    outcome r{values(batch * time * width),
              {values(gates.size()), values(w.size()), values(bias.size()), values(h.size()), values(c.size())}};
    values last(c.size());
    for (std::size_t b = 0; b < batch; ++b) {
      std::vector<step> steps;
      values now_h(h.begin() + at(b, 0), h.begin() + at(b, width)), now_c(width);
      if (is_lstm()) now_c.assign(c.begin() + at(b, 0), c.begin() + at(b, width));
      for (std::size_t i = 0; i < time; ++i) {
        steps.push_back(forward(b, reversed ? time - 1 - i : i, now_h, now_c));
        std::copy(now_h.begin(), now_h.end(),
                  r.y.begin() + static_cast<std::ptrdiff_t>((b * time + steps[i].t) * width));
      }
      if (is_lstm()) std::copy(now_c.begin(), now_c.end(), last.begin() + at(b, 0));
      values dh(width), dc(width);
      if (!dc_last.empty()) dc.assign(dc_last.begin() + at(b, 0), dc_last.begin() + at(b, width));
      for (std::size_t i = time; i-- > 0;) {
        for (std::size_t j = 0; j < width; ++j) dh[j] += dy[(b * time + steps[i].t) * width + j];
        backward(b, steps[i], dh, dc, r.gradients);
      }
      for (std::size_t j = 0; j < width; ++j) {
        r.gradients[3][b * width + j] = dh[j];
        if (is_lstm()) r.gradients[4][b * width + j] = dc[j];
      }
    }
    r.y.insert(r.y.end(), last.begin(), last.end());
    return r;
  }

 private:
  struct step {
    std::size_t t;
    values h, c, of_h;  // before the step; and the product with h
  };
  std::ptrdiff_t at(std::size_t b, std::size_t j) const { return static_cast<std::ptrdiff_t>(b * width + j); }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  step forward(std::size_t b, std::size_t t, values& now_h, values& now_c) const {
    step s{t, now_h, now_c, values(all())};
    if (t >= lengths[b]) return s;
    for (std::size_t k = 0; k < all(); ++k) {
      s.of_h[k] = is_lstm() ? 0 : bias[k];
      for (std::size_t j = 0; j < width; ++j) s.of_h[k] += s.h[j] * w[j * all() + k];
    }
    for (std::size_t j = 0; j < width; ++j) {
      const double* const x = &gates[(b * time + t) * all() + j];
      const double* const y = &s.of_h[j];
      const std::size_t n = width;
      if (is_lstm()) {
        now_c[j] = sigmoid(x[n] + y[n]) * s.c[j] + sigmoid(x[0] + y[0]) * std::tanh(x[2 * n] + y[2 * n]);
        now_h[j] = sigmoid(x[3 * n] + y[3 * n]) * std::tanh(now_c[j]);
      } else {
        const double z = sigmoid(x[n] + y[n]);
        now_h[j] = (1 - z) * std::tanh(x[2 * n] + sigmoid(x[0] + y[0]) * y[2 * n]) + z * s.h[j];
      }
    }
    return s;
  }
  void backward(std::size_t b, const step& s, values& dh, values& dc, std::vector<values>& to) const {
    if (s.t >= lengths[b]) return;
    const std::size_t n = width;
    values of_h(all());
    for (std::size_t j = 0; j < n; ++j) {
      const double* const x = &gates[(b * time + s.t) * all() + j];
      const double* const y = &s.of_h[j];
      double* const dx = &to[0][(b * time + s.t) * all() + j];
      const auto slope = [](double of_sigmoid) { return of_sigmoid * (1 - of_sigmoid); };
      if (is_lstm()) {
        const double i = sigmoid(x[0] + y[0]), f = sigmoid(x[n] + y[n]), g = std::tanh(x[2 * n] + y[2 * n]),
                     o = sigmoid(x[3 * n] + y[3 * n]), out = std::tanh(f * s.c[j] + i * g);
        dc[j] += dh[j] * o * (1 - out * out);
        dx[0] = dc[j] * g * slope(i);
        dx[n] = dc[j] * s.c[j] * slope(f);
        dx[2 * n] = dc[j] * i * (1 - g * g);
        dx[3 * n] = dh[j] * out * slope(o);
        for (std::size_t k = 0; k < 4; ++k) of_h[k * n + j] = dx[k * n];
        dc[j] *= f;
        dh[j] = 0;
      } else {
        const double r = sigmoid(x[0] + y[0]), z = sigmoid(x[n] + y[n]), g = std::tanh(x[2 * n] + r * y[2 * n]);
        dx[2 * n] = dh[j] * (1 - z) * (1 - g * g);
        dx[0] = dx[2 * n] * y[2 * n] * slope(r);
        dx[n] = dh[j] * (s.h[j] - g) * slope(z);
        of_h[j] = dx[0], of_h[n + j] = dx[n], of_h[2 * n + j] = dx[2 * n] * r;
        dh[j] *= z;
      }
    }
    for (std::size_t k = 0; k < all(); ++k) {
      if (!is_lstm()) to[2][k] += of_h[k];
      for (std::size_t j = 0; j < n; ++j) {
        to[1][j * all() + k] += s.h[j] * of_h[k];
        dh[j] += of_h[k] * w[j * all() + k];
      }
    }
  }
};

}  // namespace gradus_test::reference
