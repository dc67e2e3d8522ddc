#include "starting_model.hpp"

#include <system_error>

#include <gradus/train/run_folder.hpp>

#include "huggingface.hpp"
#include "model_file.hpp"
#include "vocabulary.hpp"

namespace gpt {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The model of a run's folder, as scripts/sample.sh chooses it: the last one, or of a run that has not ended, or was
// resumed, the best one.
fs::path model_in(const fs::path& folder) {
  const fs::path model = folder / "model.safetensors", best = folder / "best.safetensors",
                 checkpoint = gr::checkpoint_path(folder);
  std::error_code ignored;
  const bool resumed = is_there(model) && is_there(checkpoint) &&
                       fs::last_write_time(model, ignored) < fs::last_write_time(checkpoint, ignored);
  if (is_there(model) && !resumed) return model;
  return is_there(best) ? best : checkpoint;
}

}  // namespace

starting_model::starting_model(const options& o) : options_(o) {
  if (o.init.empty()) return;
  if (!o.resume.empty()) {  // its weights are those of the checkpoint, its tokenizer the run's own
    encoder_ = tokenizer_beside(fs::path(o.resume) / "checkpoint.safetensors");
    return;
  }
  const fs::path named = o.init;
  std::error_code ignored;
  if (!is_there(named)) throw gr::error("--init: " + o.init + ": no such file or folder");
  named_ = o.init;
  if (!fs::is_directory(named, ignored)) {
    file_ = named;
  } else if (is_there(named / "config.json")) {
    huggingface_ = true;
    file_ = detail::huggingface_tensors(named);
  } else {
    file_ = model_in(named);
    if (!is_there(file_))
      throw gr::error("--init: " + o.init +
                      ": has neither config.json, as a model of Hugging Face's, nor model.safetensors, as a run");
    named_ = file_.string();
  }
  encoder_ = tokenizer_beside(file_);
  if (encoder_.empty()) return;
  tokenizer_ = read_model_tokenizer(encoder_);
  if (same_tokenizer(*tokenizer_, bytes_as_bpe())) encoder_.clear();  // a text is its bytes
}

gr::dataset starting_model::open_data() const {
  gr::dataset_files files = options_.files;
  const bool have_their_own = !files.data.empty() && is_there(fs::path(files.data.front()) / "tokenizer.json");
  if (files.tokenizer.empty() && !have_their_own) files.tokenizer = encoder_;
  gr::dataset data(files, sizes.context);
  if (huggingface_ && !tokenizer_ && data.bytes())
    throw gr::error("--init: " + named_ + ": has no tokenizer.json; name one with --tokenizer");
  if (tokenizer_ && data.tokenizer() != nullptr && !same_tokenizer(*tokenizer_, *data.tokenizer()))
    throw gr::error("--init: " + named_ + ": its tokenizer is another than that of the data; " +
                    (have_their_own ? "make the shards with its tokenizer.json" : "leave out --tokenizer"));
  return data;
}

void starting_model::read(network& net, gr::context<gr::cpu>& ctx) const {
  if (huggingface_) load_huggingface(net, ctx, file_.parent_path());
  else load_model(net, ctx, file_);
}

}  // namespace gpt
