// expect(g++): use of deleted function .gradus::stream::stream\(int\)
// expect(clang++): deleted constructor
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
gradus::stream s(0);
#else
gradus::stream s;
#endif
