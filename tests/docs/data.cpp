// The code of docs/guide/data.md.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <gradus/data/augment.hpp>
#include <gradus/data/batches.hpp>
#include <gradus/data/csv.hpp>
#include <gradus/data/idx.hpp>
#include <gradus/data/labelled_texts.hpp>
#include <gradus/data/npy.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/data/sample_batches.hpp>
#include <gradus/data/token_shard.hpp>
#include <gradus/gradus.hpp>
#include <gradus/io/mapped_file.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <iostream>
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
  const gr::tokenizer tokenizer = gr::train_tokenizer(book.text(), {.vocabulary = 500});
  gr::write_tokenizer_json("tokenizer.json", tokenizer);
  // [/train]
  CHECK(tokenizer.vocabulary() == 500);
  {
    // [train-kinds]
    gr::tokenizer_trainer trainer({.kind = gr::tokenizer_kind::unigram, .vocabulary = 1500});
    trainer.count(book.text());  // and of more texts
    gr::write_tokenizer_json("unigram.json", trainer.train());
    // [/train-kinds]
    CHECK(gr::read_tokenizer_json("unigram.json").vocabulary() == 1500);
  }
  {
    // [encode]
    const gr::tokenizer there = gr::read_tokenizer_json("tokenizer.json");
    const std::vector<std::int32_t> ids = there.encode("Hello <|endoftext|>");
    const std::string text = there.decode(ids);            // "Hello <|endoftext|>"
    const std::string bytes = there.bytes_of(ids.back());  // "<|endoftext|>"
    // [/encode]
    CHECK(text == "Hello <|endoftext|>");
    CHECK(bytes == "<|endoftext|>");
  }
  {
    // [shards]
    gr::token_shard_writer shard("train.bin", gr::shard_layout::llm_c);
    gr::token_encoder encoder(tokenizer);
    encoder.encode(book.text(), [&](std::span<const std::int32_t> ids) {  // a few tokens at a time
      shard.write(ids);
    });
    shard.commit();  // the file is there, and whole
    // [/shards]
  }
  const gr::token_shard written("train.bin");
  CHECK(written.tokens().size() == tokenizer.encode(words).size());
}

TEST_CASE_FIXTURE(in_a_folder, "tokenizers of Llama 3's kind and of BERT's are read, and texts with labels") {
  fs::copy_file(before / GRADUS_TEST_DATA / "tokenizer/llama3.json", "llama3.json");
  fs::copy_file(before / GRADUS_TEST_DATA / "tokenizer/bert.json", "bert.json");
  gr::write_file_atomically("reviews.tsv", "a fine film\tgood\ntoo long\tbad\n");
  {
    // [llama3]
    const gr::tokenizer llama = gr::read_tokenizer_json("llama3.json");
    std::vector<std::int32_t> ids = llama.encode("Hello world");
    ids.insert(ids.begin(), *llama.begin_token());  // <|begin_of_text|>
    // [/llama3]
    CHECK(llama.decode(ids) == "<|begin_of_text|>Hello world");
  }
  // [wordpiece]
  const gr::tokenizer bert = gr::read_tokenizer_json("bert.json");
  const std::vector<std::int32_t> ids = bert.encode("Running naïve");  // nothing before or after
  const std::string text = bert.decode(ids);                           // "running naive"
  const gr::model_input one = bert.input("Running", 128);              // [CLS] running [SEP], at most 128 ids
  const gr::model_input two = bert.input("Who?", "Café", 128);         // [CLS] who ? [SEP] cafe [SEP]
  const std::int32_t padding = *bert.id_of("[PAD]");
  // [/wordpiece]
  CHECK(text == "running naive");
  CHECK(bert.decode(one.ids) == "[CLS] running [SEP]");
  CHECK(bert.decode(two.ids).ends_with("[SEP] cafe [SEP]"));
  CHECK(two.segments.back() == 1);
  CHECK(padding == 0);
  // [labelled]
  const gr::labelled_texts reviews = gr::read_labelled_texts("reviews.tsv");
  for (std::size_t i = 0; i < reviews.texts.size(); ++i)
    std::cout << reviews.texts[i] << " is " << reviews.labels[i] << ", which is called "
              << reviews.label_names[static_cast<std::size_t>(reviews.labels[i])] << "\n";
  // [/labelled]
  CHECK(reviews.labels == std::vector<std::int32_t>{1, 0});
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
  const std::vector<gr::token_sequence> shards{first.tokens(), second.tokens()};
  const auto parts = gr::split_sequences(shards, /*context=*/64, /*validation_share=*/0.1);
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

TEST_CASE_FIXTURE(in_a_folder, "arrays are read from files, and samples in memory become batches") {
  gr::stream stream;
  gr::host_resource host;
  gr::context<gr::cpu> ctx{stream, host};
  gr::write_npy("weights.npy", gr::full<float, gr::shape<3, 2>>(ctx, 0.5f));
  gr::write_file_atomically("iris.csv", "length,width,kind\n5.1,3.5,0\n4.9,3.0,1\n4.7,3.2,2\n4.6,3.1,1\n5.0,3.6,0\n");
  {
    // [arrays]
    const auto weights = gr::read_npy<float, gr::shape<3, 2>>(ctx, "weights.npy");  // a tensor
    gr::write_npy("copy.npy", weights);

    const gr::npy_file file("copy.npy");  // when type and extents are not known
    std::cout << file.dtype() << " of " << file.extents().size() << " axes\n";
    const gr::host_array<float> array = file.read<float>();  // array.extents and array.values
    // [/arrays]
    CHECK(array.extents == std::vector<gr::index_t>{3, 2});
    CHECK(array.values == std::vector<float>(6, 0.5f));
  }
  // [csv]
  auto inputs = gr::read_csv<float>("iris.csv", {.header = true, .columns = 2});                             // [n, 2]
  auto targets = gr::read_csv<std::int32_t>("iris.csv", {.header = true, .first_column = 2, .columns = 1});  // [n, 1]
  // [/csv]
  const std::uint64_t seed = 1;
  std::size_t rows = 0;
  const auto train_on = [&](const auto& x, const auto& y) {
    rows += x.extent(0);
    CHECK(y.extent(0) == x.extent(0));
  };
  // [samples]
  const gr::sample_batches samples(std::move(inputs), std::move(targets), {.batch = 2});
  gr::prefetcher batches([&](std::uint64_t number) { return samples.shuffled_batch(seed, number); });
  for (std::uint64_t i = 0; i < samples.batches(); ++i) {  // an epoch
    const auto batch = batches.next();
    auto x = gr::from_array<gr::shape<gr::upto<2>, 2>>(ctx, batch.inputs);
    auto y = gr::from_array<gr::shape<gr::upto<2>, 1>>(ctx, batch.targets);
    train_on(x, y);
  }
  // [/samples]
  CHECK(rows == 5);
  const gr::host_array<std::uint8_t> images{{2, 3, 3}, std::vector<std::uint8_t>(18, 9)};
  const std::uint32_t step = 4;
  // [augment]
  const auto moved = gr::shift_and_flip(images, {.shift = 2, .flip = true}, {.seed = seed, .step = step});
  // [/augment]
  CHECK(moved.extents == images.extents);
}
