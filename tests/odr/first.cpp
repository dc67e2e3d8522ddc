#include <gradus/gradus.hpp>

int first() { return 1; }
