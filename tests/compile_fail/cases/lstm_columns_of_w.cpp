// expect: lstm\(gates, w\), gru\(gates, w, b\): w must be \[H, 4\*H\] for lstm, and \[H, 3\*H\] for gru
// expect(g++): columns_of_w_are_gates_times_rows<15(UL)?, 20(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t columns = 15;
#else
constexpr gradus::index_t columns = 20;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3, columns>>& gates,
       const gradus::tensor<float, gradus::shape<5, columns>>& w) {
  return gradus::lstm(gates, w);
}
