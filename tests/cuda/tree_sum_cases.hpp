#pragma once
// The CPU's sums over parts, in memory of the host.
#include <vector>

#include <gradus/core/dtype.hpp>
#include <gradus/core/extent.hpp>

namespace gr = gradus;

template <class T>
void sum_on_cpu(T* to, const std::vector<const T*>& parts, gr::index_t n);
template <class To, class C, class From>
void merge_on_cpu(To* to, const std::vector<const C*>& before, const From* leaf, gr::index_t n);
