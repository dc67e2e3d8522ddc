#pragma once
// What a model is, without the model: `gradus train-bert` reads it from a folder before it compiles one.

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gradus/core/extent.hpp>
#include <gradus/nn/activation.hpp>

namespace bert {

namespace gr = gradus;

/// The families of encoders, by the names that transformers has for them.
enum class family { bert, roberta, xlm_roberta, distilbert, albert };

/// What the model computes of a text, and the loss that it is trained by.
enum class task {
  classes,      ///< one of several classes; cross-entropy
  regression,   ///< a number; mean squared error
  cosine,       ///< a sentence embedding; mean squared error of the cosine of a pair's embeddings and its score
  contrastive,  ///< a sentence embedding; each text must find its partner among the second texts of the batch
};

/// Which tokens a sentence embedding is made of.
enum class pooling {
  mean,  ///< of all tokens
  cls,   ///< the first token
};

/// What is the same for all models of a family.
struct family_facts {
  const char* type;            ///< "model_type" in config.json
  const char* flag;            ///< the word of --family
  gr::index_t segments;        ///< kinds of tokens: 2 for the texts of a pair; 0: no such table
  gr::index_t first_position;  ///< position of the first token
  gr::index_t embedding;       ///< features in the tables of tokens; 0: the model's width
  double epsilon;              ///< of the norms
  int pad;                     ///< id of the padding token
  gr::nn::activation pooler;   ///< behind the first token's linear layer
  bool drops_before_pooler;    ///< dropout in front of that layer, too
  bool shares_block;           ///< one block is used for all layers
};
/// By number of `family`.
inline constexpr std::array<family_facts, 5> families{{
    {"bert", "bert", 2, 0, 0, 1e-12, 0, gr::nn::activation::tanh, false, false},
    {"roberta", "roberta", 1, 2, 0, 1e-5, 1, gr::nn::activation::tanh, true, false},
    {"xlm-roberta", "xlm_roberta", 1, 2, 0, 1e-5, 1, gr::nn::activation::tanh, true, false},
    {"distilbert", "distilbert", 0, 0, 0, 1e-12, 0, gr::nn::activation::relu, false, false},
    {"albert", "albert", 2, 0, 128, 1e-12, 0, gr::nn::activation::tanh, false, true},
}};
constexpr const family_facts& facts_of(family which) { return families[static_cast<std::size_t>(which)]; }

/// The words of --task and --activation, by number.
inline constexpr std::array<const char*, 4> task_names{"classes", "regression", "cosine", "contrastive"};
inline constexpr std::array<const char*, 4> activation_names{"gelu_erf", "gelu", "relu", "silu"};
inline constexpr std::array<const char*, 2> pooling_names{"mean", "cls"};

/// The sizes and kinds of a model, fixed when it is compiled.
struct config {
  gr::index_t layers;
  gr::index_t heads;
  gr::index_t width;
  gr::index_t hidden;      ///< features inside a block's feed-forward part
  gr::index_t positions;   ///< rows of the table of positions
  gr::index_t vocabulary;  ///< token ids 0 .. vocabulary-1
  gr::index_t segments;    ///< kinds of tokens; 0: no such table
  gr::index_t labels = 1;  ///< classes 0 .. labels-1; 1 in regression
  bert::family family = bert::family::bert;
  bert::task task = bert::task::classes;
  gr::nn::activation activation = gr::nn::activation::gelu_erf;
  gr::index_t first_position = 0;  ///< position of the first token
  gr::index_t embedding = 0;  ///< features in the tables of tokens, projected to the width; 0: width, no projection

  /// Whether the model makes sentence embeddings, rather than classes or a number.
  constexpr bool embeds() const { return task == task::cosine || task == task::contrastive; }
  /// Whether labels are numbers with a fraction.
  constexpr bool scores() const { return task == task::regression || task == task::cosine; }
  /// Sequences of a sample: an embedding model reads the texts of a pair one by one.
  constexpr gr::index_t texts() const { return embeds() ? 2 : 1; }
  /// Tokens of the longest sequence.
  constexpr gr::index_t longest() const { return positions - first_position; }
};

/// Numbers of a config that are flags, too.
inline constexpr std::array<std::pair<const char*, gr::index_t config::*>, 10> size_flags{
    {{"layers", &config::layers},
     {"heads", &config::heads},
     {"width", &config::width},
     {"hidden", &config::hidden},
     {"positions", &config::positions},
     {"vocabulary", &config::vocabulary},
     {"segments", &config::segments},
     {"first-position", &config::first_position},
     {"embedding", &config::embedding},
     {"labels", &config::labels}}};
/// The kinds of a config, which are flags, too: names and values.
inline std::array<std::pair<const char*, const char*>, 3> kind_flags(const config& c) {
  return {{{"family", facts_of(c.family).flag},
           {"task", task_names[static_cast<std::size_t>(c.task)]},
           {"activation", activation_names[static_cast<std::size_t>(c.activation)]}}};
}

/// What a model keeps besides its weights, known at run time.
struct settings {
  double epsilon = 1e-12;                       ///< added to the variance in all norms
  bert::pooling pooling = bert::pooling::mean;  ///< of sentence embeddings
  bool normalized = false;                      ///< sentence embeddings have length 1
};

/// What a folder says of its model.
struct description {
  config sizes{};
  bert::settings settings = {};
  bool has_head = false;                 ///< it classifies, or predicts a number
  std::vector<std::string> labels = {};  ///< names of its classes; none where they are numbers or LABEL_0, LABEL_1, ...
};

}  // namespace bert
