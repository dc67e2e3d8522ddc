// expect: tensor<T, Shape>: Shape must be gradus::shape<\.\.\.>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using extents = int;
#else
using extents = gradus::shape<2>;
#endif

gradus::tensor<float, extents> x;
