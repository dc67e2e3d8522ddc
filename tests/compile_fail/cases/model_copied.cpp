// expect: a model is not copied: pass a reference, or gradus::copy\(from, to\) its values
// expect-lines: 30
#include <gradus/gradus.hpp>

struct net {
  gradus::nn::linear<gradus::on<gradus::cpu>, 2, 3> head;
  GRADUS_MEMBERS(head)
};

#ifdef GRADUS_FAIL
net f(const net& other) { return other; }
#else
void f(const net& other, net& to) { gradus::copy(other, to); }
#endif
