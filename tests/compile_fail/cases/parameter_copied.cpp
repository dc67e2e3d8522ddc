// expect(g++): use of deleted function .*param\(const
// expect(clang++): deleted constructor
#include <gradus/gradus.hpp>

using weight = gradus::param<gradus::on<gradus::cpu>, 2>;

#ifdef GRADUS_FAIL
weight f(const weight& w) { return w; }
#else
weight f(weight&& w) { return std::move(w); }
#endif
