// The code of docs/guide/data.md.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <gradus/data/batches.hpp>
#include <gradus/data/bpe.hpp>
#include <gradus/data/bpe_trainer.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/token_shard.hpp>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/io/mapped_file.hpp>
#include <numeric>
#include <string>
#include <vector>

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

struct in_a_folder {  // what is read and written lies in a folder of its own
  fs::path before = fs::current_path(), folder = fs::temp_directory_path() / "gradus_docs_data";
  std::string words = gr::read_text(GRADUS_TEST_DATA "/tokenizer/train.txt");
  in_a_folder() {
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::current_path(folder);
    gr::write_file_atomically("book.txt", words);
  }
  ~in_a_folder() {
    fs::current_path(before);
    fs::remove_all(folder);
  }
};

}  // namespace

TEST_CASE_FIXTURE(in_a_folder, "a BPE is learned, written, read and used") {
  // [train]
  const gr::mapped_file book("book.txt");  // not read before it is looked at
  const gr::bpe_tokenizer tokenizer = gr::train_bpe(book.text(), {.vocabulary = 500});
  gr::write_tokenizer_json("tokenizer.json", tokenizer);
  // [/train]
  CHECK(tokenizer.vocabulary() == 500);
  {
    // [encode]
    const gr::bpe_tokenizer there = gr::read_tokenizer_json("tokenizer.json");
    const std::vector<std::int32_t> ids = there.encode("Hello <|endoftext|>");
    const std::string text = there.decode(ids);                 // "Hello <|endoftext|>"
    const std::string_view bytes = there.bytes_of(ids.back());  // "<|endoftext|>"
    // [/encode]
    CHECK(text == "Hello <|endoftext|>");
    CHECK(bytes == "<|endoftext|>");
  }
  {
    // [shards]
    gr::token_shard_writer shard("train.bin", gr::shard_layout::llm_c);
    gr::bpe_encoder encoder(tokenizer);
    encoder.encode(book.text(), [&](std::span<const std::int32_t> ids) {  // a few tokens at a time
      const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
      shard.write(narrow);
    });
    shard.commit();  // the file is there, and whole
    // [/shards]
  }
  const gr::token_shard written("train.bin");
  CHECK(written.tokens().size() == tokenizer.encode(words).size());
}

TEST_CASE_FIXTURE(in_a_folder, "batches come from several shards") {
  const std::uint64_t seed = 1;
  for (const char* name : {"train_000000.bin", "train_000001.bin"}) {
    gr::token_shard_writer shard(name);
    std::vector<std::uint16_t> tokens(1000);
    std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
    shard.write(tokens);
    shard.commit();
  }
  // [batches]
  const gr::token_shard first("train_000000.bin"), second("train_000001.bin");
  const std::vector<gr::token_sequence<std::uint16_t>> shards{{first.tokens(), "train_000000.bin"},
                                                              {second.tokens(), "train_000001.bin"}};
  const auto parts = gr::split_sequences<std::uint16_t>(shards, /*context=*/64, /*validation_share=*/0.1);
  const gr::token_windows<std::uint16_t, 64> train(parts.train, /*vocabulary=*/50257);

  const auto batch = train.shuffled_batch<4>(seed, /*number=*/17);  // 4 windows of 64 tokens
  // [/batches]
  CHECK(batch.inputs.size() == 4 * 64);
  CHECK(batch.targets[5] == batch.inputs[6]);
  std::uint64_t done = 17;
  const auto train_on = [&](const auto& made) { CHECK(made.inputs == train.shuffled_batch<4>(seed, done++).inputs); };
  // [prefetch]
  gr::prefetcher batches([&](std::uint64_t number) { return train.shuffled_batch<4>(seed, number); },
                         {.first = done, .workers = 1, .ahead = 2});
  for (int step = 0; step < 10; ++step) train_on(batches.next());  // made while the step before ran
  // [/prefetch]
}
