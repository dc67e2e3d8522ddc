// Compiled with -DPART=<number> -DFLAGS=<text>, once for each set of flags.
#include "part.hpp"

namespace {

template <class T>
constexpr std::size_t bytes_of(const T&) {
  return sizeof(T);
}
template <class V, int N>
constexpr std::size_t bytes_of(const gradus::dual<V, N>&) {
  return sizeof(V);
}

}  // namespace

template <class T>
T observed_square::operator()(T x) const {
  *seen = {PART, bytes_of(x)};
  return x * x;
}

namespace {

trace forward(const matrix& x) {
  trace seen;
  gradus::map(observed_square{&seen}, x);
  return seen;
}
trace backward(gradus::context<gradus::cpu>& ctx, const matrix& x) {
  trace seen;
  recording tape{ctx};
  const auto v = tape.variable(x);
  const auto y = gradus::sum(gradus::map(observed_square{&seen}, v));
  seen = {};
  gradus::backward(y);
  return seen;
}
matrix make(gradus::context<gradus::cpu>& ctx) {
  matrix x(ctx);
  int next = 0;
  for (float& v : x.values()) v = static_cast<float>(next++ % 7 - 3);
  return x;
}
result run(const matrix& x, const model& m) { return m.head(gradus::matmul(x, m.weight)); }
loss record(recording& tape, const matrix& x, const model& m) {
  return gradus::sum(m.head(gradus::matmul(tape.watch(x), m.weight)));
}
void unwind(const loss& l) { gradus::backward(l); }
void update(gradus::context<gradus::cpu>& ctx, updates& u) {
  u.clip(ctx, 1.0);
  u.step(ctx);
}
// More than one task, each of which must run.
float sum(gradus::context<gradus::cpu>& ctx) {
  return gradus::item(gradus::sum(gradus::full<float, gradus::shape<100003>>(ctx, 1.0f) * 1.0));
}

}  // namespace

#define NAME_OF(number) part_##number
#define NAME(number)    NAME_OF(number)
extern const part NAME(PART);
const part NAME(PART){FLAGS, PART, gradus::register_bytes, forward, backward, make, run, record, unwind, update, sum};
