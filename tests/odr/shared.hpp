#pragma once
// What the sources of this folder hand to each other: tensors, parameters and a tape made in one of them and used in
// another, so that both have to agree about every type, operation and kernel.
#include <gradus/gradus.hpp>

using odr_matrix = gradus::tensor<float, gradus::shape<2, 3>>;
using odr_weight = gradus::param<gradus::on<gradus::cpu>, 3, 1>;
using odr_tape = gradus::tape<gradus::cpu>;
using odr_loss = gradus::traced<gradus::tensor<float, gradus::shape<>>, odr_tape>;

odr_matrix make_matrix(gradus::context<gradus::cpu>& ctx);
float sum_of(const odr_matrix& x);
/// The sum of (x w)^2, recorded in one source ...
odr_loss record_loss(odr_tape& tape, const odr_matrix& x, const odr_weight& w);
/// ... and run backwards in another, which gives the sum of w's gradient.
float gradient_sum(const odr_loss& loss, const odr_weight& w);
