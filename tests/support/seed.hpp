// Seeds of random inputs: other ones in every run, and the same ones again with GRADUS_TEST_SEED.
#pragma once

namespace gradus_test {

/// The next seed of the test case that runs. Depends on the run's own seed, the test case and how many it has asked
/// for. The run's seed is drawn, or is the number in the environment variable GRADUS_TEST_SEED; where a test fails it
/// is printed.
unsigned fresh_seed();

}  // namespace gradus_test
