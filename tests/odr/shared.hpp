#pragma once
// What the sources of this folder hand to each other: a tensor made in one of them and read in another, so that both have to
// agree about every type in it.
#include <gradus/gradus.hpp>

using odr_matrix = gradus::tensor<float, gradus::shape<2, 3>>;

odr_matrix make_matrix(gradus::context<gradus::cpu>& ctx);
float sum_of(const odr_matrix& x);
