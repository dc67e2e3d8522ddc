// Files of arrays: .npy, IDX and CSV. Each input is read as all three.
#include <gradus/data/csv.hpp>
#include <gradus/data/idx.hpp>
#include <gradus/data/npy.hpp>

#include "fuzz.hpp"

namespace {

void read_all(const gradus::array_file& file) {
  gradus_fuzz::attempt([&] { (void)file.read<double>(); });
  gradus_fuzz::attempt([&] { (void)file.read<float>(); });
  gradus_fuzz::attempt([&] { (void)file.read<std::int64_t>(); });
  gradus_fuzz::attempt([&] { (void)file.read<std::int32_t>(); });
  gradus_fuzz::attempt([&] { (void)file.read<std::uint8_t>(); });
  gradus_fuzz::attempt([&] { (void)file.read<bool>(); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gradus_fuzz::input_file input(data, size);
  gradus_fuzz::attempt([&] { read_all(gradus::npy_file(input.path())); });
  gradus_fuzz::attempt([&] { read_all(gradus::idx_file(input.path())); });
  gradus_fuzz::attempt([&] { (void)gradus::read_csv<float>(input.path(), {.header = true}); });
  return gradus_fuzz::attempt(
      [&] { (void)gradus::read_csv<double>(input.path(), {.delimiter = ' ', .first_column = 1, .columns = 1}); });
}
