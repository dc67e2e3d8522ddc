#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "../support/scratch_folder.hpp"
#include "device.hpp"
#include "matmul_cases.hpp"

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Products of every kind: with a bias, batched, and gradients that are added to others.
std::vector<record> products(const std::string& tuned, unsigned seed) {
  gpu d;
  gr::tune_products(d.ctx, tuned);
  runner<gr::cuda> r(d.ctx, seed);
  matmul_cases(r);
  return std::move(r.records);
}

std::string refused(const std::string& path) {
  gpu d;
  try {
    gr::tune_products(d.ctx, path);
  } catch (const gr::error& e) { return e.what(); }
  return "";
}

}  // namespace

TEST_CASE("matrix products on the GPU have the CPU's values and gradients, transposed or not, batched or not") {
  if (no_gpu()) return;
  agree(&matmul_on_cpu, [](auto& r) { matmul_cases(r); });
}

TEST_CASE("tuned products have their values, and a program that finds its products in the file times nothing") {
  if (no_gpu()) return;
  const gradus_test::scratch_folder folder;
  const std::string file = (folder.path / "products").string();
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  const auto first = products(file, seed);
  agree(first, matmul_on_cpu(seed));

  const std::string kept = text_of(file);
  const auto lines = std::count(kept.begin(), kept.end(), '\n');
  CHECK(lines > 10);
  CHECK(kept.find("a b^T") != std::string::npos);
  CHECK(kept.find(" + c") != std::string::npos);
  same_bits(first, products(file, seed));
  CHECK(text_of(file) == kept);

  // Another machine's choices are not this one's.
  std::ofstream(file, std::ios::trunc) << kept.substr(0, kept.find('\n') + 1) << "another GPU\t1\t1\t"
                                       << kept.substr(kept.rfind("\ta", kept.size() - 2) + 1);
  products(file, seed);
  const std::string both = text_of(file);
  CHECK(std::count(both.begin(), both.end(), '\n') == lines + 1);
}

TEST_CASE("what is not a file of tuned products is refused, and stays as it is") {
  if (no_gpu()) return;
  const gradus_test::scratch_folder folder;
  const std::string file = (folder.path / "products").string();
  std::ofstream(file) << "a letter\n";
  CHECK(refused(file).find("is not a file of tuned products") != std::string::npos);
  CHECK(text_of(file) == "a letter\n");
  std::ofstream(file, std::ios::trunc)
      << "gradus: the fastest algorithms of cuBLASLt, a product a line\nGPU\t1\t2\ta b\t12\n";
  CHECK(refused(file).find("is damaged") != std::string::npos);
  CHECK(refused((folder.path / "none" / "products").string()).find("cannot write") != std::string::npos);
}
