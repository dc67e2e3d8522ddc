// expect: to_host\(x\): x must be a plain tensor; write to_host\(x\.value\(\)\)
// expect: is_a_plain_tensor<(gradus::)?state<
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define VALUE s
#else
#define VALUE s.value()
#endif

auto f(const gradus::state<gradus::on<gradus::cpu>, 2>& s) { return gradus::to_host(VALUE); }
