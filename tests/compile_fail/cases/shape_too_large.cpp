// expect: a shape of more than 2\^48 elements
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::shape<(1ul << 40), (1ul << 40)>;
#else
using subject = gradus::shape<(1ul << 20), (1ul << 20)>;
#endif

static_assert(subject::size > 0);
