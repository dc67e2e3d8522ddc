#include <gradus/gradus.hpp>

int second() { return 2; }
