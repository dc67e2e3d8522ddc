// expect: tensor<T, Shape>: T must be one of f64 f32 bf16 f16 i64 i32 u16 u8 bool
// expect: is_element<char>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = char;
#else
using element = bool;
#endif

gradus::tensor<element, gradus::shape<2>> x;
