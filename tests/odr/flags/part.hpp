#pragma once
// One source, part.cpp, is compiled several times, with other flags each time, into the parts of one program. What they
// exchange:
#include <gradus/gradus.hpp>

#include <cstddef>

using matrix = gradus::tensor<float, gradus::shape<37, 53>>;
using result = gradus::tensor<float, gradus::shape<37, 1>>;
using recording = gradus::tape<gradus::cpu>;
using loss = gradus::traced<gradus::tensor<float, gradus::shape<>>, recording>;

struct model {
  gradus::param<gradus::on<gradus::cpu>, 53, 29> weight;
  gradus::nn::linear<gradus::on<gradus::cpu>, 29, 1> head;
  GRADUS_MEMBERS(weight, head)
};
using updates = gradus::adamw<float, gradus::cpu>;

/// Which part's code ran, and how wide its registers are.
struct trace {
  int part = -1;
  std::size_t bytes = 0;
};
/// x * x; leaves a trace. One type, whose function each part defines for itself.
struct observed_square {
  trace* seen;
  template <class T>
  T operator()(T x) const;
};

/// What a part does for the others.
struct part {
  const char* flags;
  int number;
  std::size_t bytes;  ///< of its registers
  trace (*forward)(const matrix&);
  trace (*backward)(gradus::context<gradus::cpu>&, const matrix&);
  matrix (*make)(gradus::context<gradus::cpu>&);
  result (*run)(const matrix&, const model&);
  loss (*record)(recording&, const matrix&, const model&);
  void (*unwind)(const loss&);
  void (*update)(gradus::context<gradus::cpu>&, updates&);
  float (*sum)(gradus::context<gradus::cpu>&);
};
