// The one main() of every test program. doctest's implementation is compiled here, once, not in each program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
