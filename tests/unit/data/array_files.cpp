#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <gradus/cpu/access.hpp>
#include <gradus/data/csv.hpp>
#include <gradus/data/idx.hpp>
#include <gradus/data/npy.hpp>
#include <gradus/memory/host_resource.hpp>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"

namespace fs = std::filesystem;
using gradus::f16;
using gradus::index_t;
using gradus_test::message_of;

namespace {

const fs::path fixtures = fs::path(GRADUS_TEST_DATA) / "arrays";
using extents = std::vector<index_t>;

// Element i of the files that tests/parity/make_array_fixtures.py writes; `largest` of the stored type, if unsigned.
template <class T>
T element(index_t i, std::int64_t largest) {
  const auto n = static_cast<std::int64_t>(7 * i);
  if constexpr (std::is_same_v<T, bool>) return i % 3 == 0;
  else if constexpr (gradus::is_floating<T>) return static_cast<T>(static_cast<float>(n) - 20.25f);
  else return static_cast<T>(largest != 0 ? largest - n : n - 20);
}

template <class T>
void check_fixture(const gradus::host_array<T>& array, const extents& expected, std::int64_t largest = 0) {
  CHECK(array.extents == expected);
  index_t size = 1;
  for (const index_t e : expected) size *= e;
  REQUIRE(array.values.size() == size);
  for (index_t i = 0; i < size; ++i) CHECK(array.values[i] == element<T>(i, largest));
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct machine {
  gradus::stream stream;
  gradus::host_resource host;
  gradus::context<gradus::cpu> ctx{stream, host};
};

struct folder : gradus_test::scratch_folder {
  fs::path file(std::string_view bytes) const {
    std::ofstream(path / "x", std::ios::binary) << bytes;
    return path / "x";
  }
  // What is said of a file of these bytes, without its name.
  template <class Read>
  std::string said(std::string_view bytes, const Read& read) const {
    const std::string name = file(bytes).string() + ": ";
    const std::string message = message_of([&] { read(path / "x"); });
    CHECK(message.find('\n') == std::string::npos);
    return message.starts_with(name) ? message.substr(name.size()) : message;
  }
};

// A file of version 1 with this header; the values are zeros.
std::string npy(const std::string& header, std::size_t bytes = 24) {
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header + std::string(bytes, '\0');
}

}  // namespace

TEST_CASE_TEMPLATE("NumPy's files of each type are read, and written byte for byte", T, double, float, f16,
                   std::int64_t, std::int32_t, std::uint16_t, std::uint8_t, bool) {
  const char* const name = std::is_same_v<T, double>          ? "f8.npy"
                           : std::is_same_v<T, float>         ? "f4.npy"
                           : std::is_same_v<T, f16>           ? "f2.npy"
                           : std::is_same_v<T, std::int64_t>  ? "i8.npy"
                           : std::is_same_v<T, std::int32_t>  ? "i4.npy"
                           : std::is_same_v<T, std::uint16_t> ? "u2.npy"
                           : std::is_same_v<T, std::uint8_t>  ? "u1.npy"
                                                              : "b1.npy";
  const std::int64_t largest = std::is_same_v<T, std::uint16_t> ? 65535 : std::is_same_v<T, std::uint8_t> ? 255 : 0;
  const gradus::npy_file file(fixtures / name);
  CHECK(file.dtype() == gradus::dtype_name<T>());
  CHECK(extents(file.extents().begin(), file.extents().end()) == extents{2, 3});
  const auto array = file.read<T>();
  check_fixture(array, {2, 3}, largest);
  machine m;
  const auto t = gradus::read_npy<T, gradus::shape<2, 3>>(m.ctx, fixtures / name);
  CHECK(t(1, 2) == element<T>(5, largest));
  const folder f;
  gradus::write_npy(f.path / "array.npy", array);
  gradus::write_npy(f.path / "tensor.npy", t);
  CHECK((bytes_of(f.path / "array.npy") == bytes_of(fixtures / name)));
  CHECK((bytes_of(f.path / "tensor.npy") == bytes_of(fixtures / name)));
}

TEST_CASE("files of every version, byte order, order of axes and rank are read right") {
  const auto read = [](const char* name) { return gradus::read_npy<float>(fixtures / name); };
  for (const char* const name : {"big_f4.npy", "version2.npy", "version3.npy"}) check_fixture(read(name), {2, 3});
  check_fixture(gradus::read_npy<double>(fixtures / "big_f8.npy"), {2, 3});
  check_fixture(read("fortran.npy"), {2, 3, 4});
  check_fixture(read("scalar.npy"), {});
  check_fixture(read("vector.npy"), {5});
  check_fixture(read("empty.npy"), {0, 3});
  const folder f;
  for (const char* const name : {"scalar.npy", "vector.npy", "empty.npy"}) {
    gradus::write_npy(f.path / name, read(name));
    CHECK((bytes_of(f.path / name) == bytes_of(fixtures / name)));
  }
  for (const char* const name : {"aligned_0.npy", "aligned_1.npy"}) {
    gradus::write_npy(f.path / name, gradus::read_npy<std::uint8_t>(fixtures / name));
    CHECK((bytes_of(f.path / name) == bytes_of(fixtures / name)));
  }
}

TEST_CASE("integers of types without tensors are read as longer ones") {
  for (const char* const name : {"i1.npy", "i2.npy", "big_i2.npy"})
    check_fixture(gradus::read_npy<std::int32_t>(fixtures / name), {2, 3});
  check_fixture(gradus::read_npy<std::int32_t>(fixtures / "fortran_big.npy"), {3, 2});
  for (const char* const name : {"u4.npy", "big_u4.npy"})
    check_fixture(gradus::read_npy<std::int64_t>(fixtures / name), {2, 3}, 4294967295);
}

TEST_CASE("IDX files of each type are read") {
  check_fixture(gradus::read_idx<std::uint8_t>(fixtures / "u1.idx"), {2, 3}, 255);
  for (const char* const name : {"i1.idx", "i2.idx", "i4.idx"})
    check_fixture(gradus::read_idx<std::int32_t>(fixtures / name), {2, 3});
  check_fixture(gradus::read_idx<float>(fixtures / "f4.idx"), {2, 3});
  check_fixture(gradus::read_idx<double>(fixtures / "f8.idx"), {2, 3});
  machine m;
  CHECK(gradus::read_idx<std::uint8_t, gradus::shape<2, 3>>(m.ctx, fixtures / "u1.idx")(1, 2) == 220);
}

TEST_CASE("another type or shape than the file's is refused, and both are named") {
  machine m;
  const std::string f8 = (fixtures / "f8.npy").string(), csv = (fixtures / "table.csv").string();
  CHECK(message_of([&] { gradus::read_npy<float>(f8); }) == f8 + ": holds f64 [2, 3] where f32 [2, 3] is needed");
  CHECK(message_of([&] { gradus::read_npy<double, gradus::shape<3, 2>>(m.ctx, f8); }) ==
        f8 + ": holds f64 [2, 3] where f64 [3, 2] is needed");
  CHECK(message_of([&] { gradus::read_csv<float, gradus::shape<4, 2>>(m.ctx, csv, {.header = true}); }) ==
        csv + ": holds f32 [4, 3] where f32 [4, 2] is needed");
  const gradus::host_array<float> array{{2, 2}, {1, 2, 3, 4}};
  CHECK(gradus::from_array<gradus::shape<2, 2>>(m.ctx, array)(1, 0) == 3);
  CHECK(message_of([&] { gradus::from_array<gradus::shape<4>>(m.ctx, array); }) ==
        "from_array<Shape>(ctx, array): the array: holds f32 [2, 2] where f32 [4] is needed");
  const gradus::host_array<float> lies{{2, 2}, {1, 2, 3}};
  const char* const what = ": the array: 3 values for the extents [2, 2]";
  CHECK(message_of([&] { gradus::from_array<gradus::shape<2, 2>>(m.ctx, lies); }).ends_with(what));
  CHECK(message_of([&] { gradus::write_npy("x", lies); }) == std::string("write_npy") + what);
}

TEST_CASE("a .npy file that is not whole, or lies about itself, is refused in one line") {
  const folder f;
  const auto said = [&](const std::string& bytes) {
    return f.said(bytes, [](const fs::path& path) { gradus::npy_file{path}; });
  };
  const auto of = [&](const std::string& type, const std::string& shape, std::size_t bytes = 24) {
    return said(npy("{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + ", }", bytes));
  };
  CHECK(of("'<f4'", "(2, 3)") == "nothing was thrown");
  CHECK(of("'<f4'", "(2, 3)", 23) == "its header says f32 [2, 3], that is 24 bytes, and 23 follow");
  CHECK(of("'<f4'", "(2, 3)", 25) == "its header says f32 [2, 3], that is 24 bytes, and 25 follow");
  CHECK(of("'<f4'", "(4611686018427387904, 2)") ==
        "its header says f32 [4611686018427387904, 2]: an array this large cannot exist");
  CHECK(of("'<f4'", "(99999999999999999999,)") == "its header says an extent of 99999999999999999999");
  const std::string syntax = "is not a .npy file: its header is not the dictionary that NumPy writes";
  for (const char* const shape : {"(-2, 3)", "(2; 3)", "(2, 3", "2", "(2, 3), 'shape': (2, 3)", "(2, 3), 'x': (2,)"})
    CHECK(of("'<f4'", shape) == syntax);
  CHECK(said(npy("")) == syntax);
  CHECK(said(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} }")) == syntax);
  CHECK(said(npy("{'descr': '<f4', 'shape': (6,)}")) == syntax);
  CHECK(said(npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (6,)}")) == syntax);
  CHECK(said(npy("{'shape': (6,), \"descr\":'<f4','fortran_order':True}\n")) == "nothing was thrown");
  CHECK(said(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }")) ==
        "nothing was thrown");  // Python 2
  for (const char* const type : {"'<c8'", "'<U3'", "'|O'", "'<u8'", "'!f4'", "'f4'", "''"}) {
    const std::string name = std::string(type).substr(1, std::string_view(type).size() - 2);
    CHECK(of(type, "(2, 3)") ==
          "holds elements of NumPy's type '" + name + "'; only f8 f4 f2 i8 i4 i2 i1 u4 u2 u1 b1 are read");
  }
  CHECK(of("[('a', '<f4')]", "(2,)") == "holds structs; only arrays of numbers are read");
  CHECK(said("") == "is not a .npy file");
  CHECK(said("a,b\n") == "is not a .npy file");
  CHECK(said(npy("").substr(0, 6)) == "ends within its header");
  CHECK(said(std::string("\x93NUMPY\4\0\0\0\0\0", 12)) == "has version 4 of the .npy format; only 1, 2 and 3 are read");
  CHECK(said(std::string("\x93NUMPY\1\0\x40\0{'descr", 17)) == "ends within its header");
  CHECK(said(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{'descr", 19)) ==
        "has a header of 4294967295 bytes; that of an array of numbers has at most 65535");
  CHECK(said("PK\3\4") == "is a zip archive, as .npz; unpack it first: unzip FILE");
  CHECK(message_of([] { gradus::npy_file("/nowhere/a.npy"); }) == "/nowhere/a.npy: no such file");
  const std::string booleans = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 0) + '\1' + '\0' + '\2';
  CHECK(f.said(booleans, [](const fs::path& path) { gradus::read_npy<bool>(path); }) ==
        "element 2 is the byte 2; a boolean is 0 or 1");
}

TEST_CASE("an IDX file that is not whole, or lies about itself, is refused in one line") {
  const folder f;
  const auto said = [&](const std::string& bytes) {
    return f.said(bytes, [](const fs::path& path) { gradus::idx_file{path}; });
  };
  CHECK(said(std::string("\0\0\x08\1\0\0\0\3abc", 11)) == "nothing was thrown");
  CHECK(said(std::string("\0\0\x08\1\0\0\0\3ab", 10)) == "its header says u8 [3], that is 3 bytes, and 2 follow");
  CHECK(said(std::string("\0\0\x0e\3", 4) + std::string(12, '\xff')) ==
        "its header says f64 [4294967295, 4294967295, 4294967295]: an array this large cannot exist");
  CHECK(said(std::string("\0\0\x08\2\0\0\0\3", 8)) == "ends within its header");
  CHECK(said(std::string("\0\0\x0a\1\0\0\0\3", 8)) ==
        "is not an IDX file: its element type has the code 10; known are 8, 9, 11, 12, 13, 14");
  CHECK(said("IDX files begin otherwise") == "is not an IDX file: it does not begin with two zero bytes");
  CHECK(said("ab") == "is too short for an IDX file");
  CHECK(said("\x1f\x8b\x08\x08") == "is compressed by gzip; unpack it first: gunzip FILE");
}

TEST_CASE("CSV files are read: with a header line, other delimiters, some of their columns") {
  check_fixture(gradus::read_csv<float>(fixtures / "table.csv", {.header = true}), {4, 3});
  check_fixture(gradus::read_csv<f16>(fixtures / "spaces.txt", {.delimiter = ' '}), {4, 3});
  const folder f;
  const fs::path iris = f.file("\xEF\xBB\xBF 5.1; nan ;setosa; 0 \r\n-4e-1;inf;\"x\";\t2\r\n\r\n");
  const auto numbers = gradus::read_csv<float>(iris, {.delimiter = ';', .columns = 2});
  CHECK(numbers.extents == extents{2, 2});
  CHECK(numbers.values[0] == 5.1f);
  CHECK(numbers.values[1] != numbers.values[1]);
  CHECK(numbers.values[2] == -0.4f);
  CHECK(numbers.values[3] == std::numeric_limits<float>::infinity());
  const auto labels = gradus::read_csv<std::uint8_t>(iris, {.delimiter = ';', .first_column = 3});
  CHECK(labels.extents == extents{2, 1});
  CHECK(labels.values == std::vector<std::uint8_t>{0, 2});
  // The largest float in nine digits is above it, and a number below the smallest is 0, as in NumPy.
  CHECK(gradus::read_csv<float>(f.file("3.40282347e+38,1e-60")).values ==
        std::vector<float>{std::numeric_limits<float>::max(), 0});
}

TEST_CASE("the first bad field of a CSV file is named with its line and column") {
  const folder f;
  const auto said = [&](const std::string& text, const gradus::csv_options& options = {}) {
    return f.said(text, [&](const fs::path& path) { gradus::read_csv<float>(path, options); });
  };
  CHECK(said("1,2\n3,4.5.6\n") == "line 2, column 2: '4.5.6' is not a number of type f32");
  CHECK(said("a,b\n1,2\n3,x\n", {.header = true}) == "line 3, column 2: 'x' is not a number of type f32");
  CHECK(said("a,b\n1,2\n") ==
        "line 1, column 1: 'a' is not a number of type f32; if the first line names the columns, set .header = true");
  CHECK(said("1,2\n\"3\",4") == "line 2, column 1: '\"3\"' is not a number of type f32");
  CHECK(said("1,2\n3,1e39") == "line 2, column 2: '1e39' is not a number of type f32");
  CHECK(said("1,2\n3,\x1b[1m") == "line 2, column 2: '\\x1b[1m' is not a number of type f32");
  CHECK(said(",2\n3,4\n") == "line 1, column 1: is empty; a number is needed");
  CHECK(said("1,2\n3,\n") == "line 2, column 2: is empty; a number is needed");
  CHECK(said("1\n\n2\n") == "line 2, column 1: is empty; a number is needed");
  CHECK(said("1,2\n3\n") == "line 2 has 1 fields; the first row has 2");
  CHECK(said("1,2\n3,4,5\n") == "line 2 has 3 fields; the first row has 2");
  CHECK(said("1,2\n", {.first_column = 1, .columns = static_cast<gradus::index_t>(-1)}) ==
        "has 2 columns; columns count from 0, and there is no column 2");
  CHECK(said("1,2\n", {.first_column = 2}) == "has 2 columns; columns count from 0, and there is no column 2");
  CHECK(said("1,2\n", {.first_column = 1, .columns = 2}) ==
        "has 2 columns; columns count from 0, and there is no column 2");
  CHECK(said("\r\n\n") == "holds no rows");
  CHECK(said("a,b\n", {.header = true}) == "holds no rows");
  CHECK(said("\x1f\x8b\x08\x08") == "is compressed by gzip; unpack it first: gunzip FILE");
  CHECK(f.said("1,300", [](const fs::path& path) { gradus::read_csv<std::uint8_t>(path); }) ==
        "line 1, column 2: '300' is not a number of type u8; if the first line names the columns, set .header = true");
}
