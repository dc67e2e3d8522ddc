#include <doctest/doctest.h>

#include <gradus/core/byte_size.hpp>
#include <string>

using namespace gradus;

namespace {
std::string refusal(std::string_view text) {
  try {
    return "accepted as " + std::to_string(parse_bytes(text));
  } catch (const error& e) { return e.what(); }
}
}  // namespace

TEST_CASE("a size is a number and a unit, of powers of 1000 or of 1024") {
  CHECK(parse_bytes("1000B") == 1000);
  CHECK(parse_bytes("64KiB") == 65536);
  CHECK(parse_bytes("64kB") == 64000);
  CHECK(parse_bytes("64KB") == 64000);
  CHECK(parse_bytes("600MiB") == 629145600);
  CHECK(parse_bytes("512 MB") == 512000000);
  CHECK(parse_bytes("2GB") == 2000000000);
  CHECK(parse_bytes("3TiB") == 3298534883328);
  CHECK(parse_bytes("3TB") == 3000000000000);
  CHECK(parse_bytes("18446744073709551615B") == SIZE_MAX);
}

TEST_CASE("a size may have a fraction, of which part of a byte is dropped") {
  CHECK(parse_bytes("1.5GiB") == 1610612736);
  CHECK(parse_bytes("0.25 KiB") == 256);
  CHECK(parse_bytes("1.3KiB") == 1331);
  CHECK(parse_bytes("2.0B") == 2);
  CHECK(parse_bytes("1.9B") == 1);
}

TEST_CASE("what is not a size is refused, with what was wrong and what would be right") {
  const std::string write = "; write a number and a unit, such as 600MiB or 1.5GiB";
  CHECK(refusal("") == "size \"\": empty" + write);
  CHECK(refusal("0MiB") == "size \"0MiB\": a size of 0 bytes" + write);
  CHECK(refusal("0.1B") == "size \"0.1B\": a size of 0 bytes" + write);
  CHECK(refusal("-5MiB") == "size \"-5MiB\": a size cannot be negative" + write);
  CHECK(refusal("lots") == "size \"lots\": does not begin with a digit" + write);
  CHECK(refusal(" 5MiB") == "size \" 5MiB\": does not begin with a digit" + write);
  CHECK(refusal("+5MiB") == "size \"+5MiB\": does not begin with a digit" + write);
  CHECK(refusal("nanMiB") == "size \"nanMiB\": does not begin with a digit" + write);
  CHECK(refusal("1.MiB") == "size \"1.MiB\": no digit after the point" + write);
  const std::string units = "; write B, KB, MB, GB, TB, KiB, MiB, GiB or TiB";
  CHECK(refusal("600") ==
        "size \"600\": no unit; write B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024)");
  CHECK(refusal("600M") == "size \"600M\": unknown unit \"M\"" + units);
  CHECK(refusal("600mib") == "size \"600mib\": unknown unit \"mib\"" + units);
  CHECK(refusal("1,5GiB") == "size \"1,5GiB\": unknown unit \",5GiB\"" + units);
  CHECK(refusal("1e3MiB") == "size \"1e3MiB\": unknown unit \"e3MiB\"" + units);
  CHECK(refusal("5MiB ") == "size \"5MiB \": unknown unit \"MiB \"" + units);
  CHECK(refusal("1.2.3GiB") == "size \"1.2.3GiB\": unknown unit \".3GiB\"" + units);
}

TEST_CASE("a size beyond what can be addressed is refused") {
  for (const char* text :
       {"18446744073709551616B", "99999999999999999999999B", "16777216TiB", "18446744073709551615.5KiB"})
    CHECK(refusal(text) == "size \"" + std::string(text) + "\": more than this machine can address");
  CHECK(parse_bytes("16777215TiB") == (SIZE_MAX >> 40) << 40);
}

TEST_CASE("sizes are printed with three digits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(10 * 1024) == "10.0 KiB");
  CHECK(format_bytes(629145600) == "600 MiB");
  CHECK(format_bytes(1331439861) == "1.24 GiB");
  CHECK(format_bytes((std::size_t{1} << 30) - 1) == "1.00 GiB");
  CHECK(format_bytes(10477 * 1024) == "10.2 MiB");
  CHECK(format_bytes(SIZE_MAX) == "16.0 EiB");
}
