#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <utility>

#include <gradus/autodiff/checkpoint/checkpoint.hpp>
#include <gradus/model/init.hpp>
#include <gradus/model/parameters.hpp>
#include <gradus/tensor/param.hpp>

#include "../support/scratch_folder.hpp"
#include "device.hpp"
#include "matmul_cases.hpp"

struct biased_layer {
  gr::param<gr::on<gr::cuda, gr::bf16_mixed>, 24, 40> w;
  gr::param<gr::on<gr::cuda, gr::bf16_mixed>, 40> b{gr::start::drawn, 20};
  GRADUS_MEMBERS(w, b)
};

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

/// A file's text, with the sums of bias gradients apart from the products.
std::string with_sums_apart(const std::string& text) {
  return std::regex_replace(text, std::regex("(, bias gradient[^\n]*\t)[0-9a-f]+"), "$01" + std::string(128, '0'));
}

std::string refused(const std::string& path) {
  gpu d;
  try {
    gr::tune_products(d.ctx, path);
  } catch (const gr::error& e) { return e.what(); }
  return "";
}

/// The copies that parameters make of themselves.
struct copies final : gr::observer {
  int count = 0;
  void begin(const gr::activity& a) override { count += a.name == "cast" ? 1 : 0; }
  void end(const gr::activity&) override {}
};

}  // namespace

TEST_CASE("a float bias is copied with its weight, once after each change, and rounded as the library needs it") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu d;
  runner<gr::cuda> r(d.ctx, seed);
  biased_layer net;
  gr::init(net, d.ctx, gr::normal_init{.seed = seed, .stddev = 0.1});
  const auto x = gr::from_host<gr::bf16, gr::shape<19, 24>>(d.ctx, r.random<gr::bf16>(19 * 24).data());
  const auto w = gr::cast<gr::bf16>(net.w.value());
  const auto b = gr::cast<gr::bf16>(net.b.value());
  const auto rounded = [](const auto& t) {
    std::vector<double> values;
    for (const auto v : gr::to_host(t)) values.push_back(static_cast<double>(static_cast<float>(v)));
    return values;
  };
  const auto expected = rounded(gr::linear(x, w, b));

  copies seen;
  d.ctx.observe(&seen);
  gr::tape tape{d.ctx};
  const auto loss = [&] {
    const auto y = gr::checkpoint([&](const auto& in) { return gr::linear(in, net.w, net.b); }, tape.watch(x));
    CHECK(rounded(y.value()) == expected);
    return gr::sum(y);
  };
  for (int batch = 0; batch < 2; ++batch) gr::backward(loss());
  CHECK(seen.count == 2);
  net.b.edit();
  gr::backward(loss());
  CHECK(seen.count == 3);
  d.ctx.observe(nullptr);
  CHECK(rounded(net.b.gradient()) == std::vector<double>(40, 3 * 19));
}

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

  const std::string apart = with_sums_apart(kept);
  CHECK(apart.size() == kept.size());
  std::ofstream(file, std::ios::trunc) << apart;
  agree(products(file, seed), matmul_on_cpu(seed));
  CHECK(text_of(file) == apart);

  // Another machine's choices are not this one's.
  std::ofstream(file, std::ios::trunc) << kept.substr(0, kept.find('\n') + 1) << "another GPU\t1\t1\t"
                                       << kept.substr(kept.rfind("\ta", kept.size() - 2) + 1);
  products(file, seed);
  const std::string both = text_of(file);
  CHECK(std::count(both.begin(), both.end(), '\n') == lines + 1);
}

TEST_CASE(
    "a bias gradient that the file has apart from its product is the sum's, bit for bit, and is not timed again") {
  if (no_gpu()) return;
  const gradus_test::scratch_folder folder;
  const std::string file = (folder.path / "products").string();
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  const auto bias_gradient = [&] {
    gpu d;
    gr::tune_products(d.ctx, file);
    runner<gr::cuda> r(d.ctx, seed);
    gr::tape tape{d.ctx};
    const auto drawn = [&]<class S>(S) { return gr::from_host<float, S>(d.ctx, r.random<float>(S::size).data()); };
    const auto x = tape.variable(drawn(gr::shape<257, 32>{}));
    const auto w = tape.variable(drawn(gr::shape<32, 48>{}));
    const auto b = tape.variable(drawn(gr::shape<48>{}));
    auto y = gr::linear(x, w, b);
    const auto dy = drawn(gr::shape<257, 48>{});
    y.slot()->give(dy);
    tape.unwind();
    return std::pair(gr::to_host(b.gradient()), gr::to_host(gr::sum<0>(dy)));
  };
  bias_gradient();
  const std::string apart = with_sums_apart(text_of(file));
  CHECK(apart.find(std::string(128, '0')) != std::string::npos);
  std::ofstream(file, std::ios::trunc) << apart;
  const auto [gradient, sum] = bias_gradient();
  CHECK(gradient == sum);
  CHECK(text_of(file) == apart);
}

TEST_CASE("no algorithm of a product to 16 bits keeps partial sums in 16 bits") {
  if (no_gpu()) return;
  namespace kit = gr::cuda_kit;
  CHECK(kit::reductions_for(sizeof(gr::bf16)) == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  CHECK(kit::reductions_for(sizeof(float)) == CUBLASLT_REDUCTION_SCHEME_MASK);
  gpu d;
  for (const cudaDataType_t type : {CUDA_R_16BF, CUDA_R_16F}) {
    kit::gemm_description of;
    of.alignment = 256;
    of.result_element = sizeof(gr::bf16);
    kit::check(cublasLtMatmulDescCreate(&of.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    kit::create_layout(of.left, type, 64, 65536, 64, 1, 0);
    kit::create_layout(of.right, type, 65536, 64, 65536, 1, 0);
    kit::create_layout(of.result, type, 64, 64, 64, 1, 0);
    const kit::gemm_suggestions found(d.ctx.get<kit::gemm_library>().handle(), of, kit::most_algorithms);
    CHECK(found.begin() != found.end());
    for (const auto& one : found) {
      std::uint32_t scheme = 0;
      kit::check(cublasLtMatmulAlgoConfigGetAttribute(&one.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                      sizeof(scheme), nullptr),
                 "cublasLtMatmulAlgoConfigGetAttribute");
      CHECK((scheme & ~kit::reductions_for(of.result_element)) == 0);
    }
  }
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
