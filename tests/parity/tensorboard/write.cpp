// write FOLDER FIRST LAST: a part of a run of ../compare_tensorboard.py that begins with step FIRST and ends with LAST.
#include <cstdlib>

#include <gradus/report/tensorboard.hpp>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long long first = std::atoll(argv[2]), last = std::atoll(argv[3]);
  gradus::tensorboard_writer writer(argv[1], first > 1 ? first : 0);
  for (long long step = first; step <= last; ++step) writer.scalars(step, {{"loss/train", static_cast<double>(first)}});
}
