// expect: tape\{ctx\}: ctx is a temporary context, which ends here; name it first
#include <gradus/gradus.hpp>

void f(gradus::stream& stream, gradus::memory_resource& memory) {
#ifdef GRADUS_FAIL
  gradus::tape tape{gradus::context{stream, memory}};
#else
  gradus::context ctx{stream, memory};
  gradus::tape tape{ctx};
#endif
  tape.clear();
}
