// What a first program of a user's does: include everything, and run.
#include <gradus/gradus.hpp>

int main() { return 0; }
