#pragma once
// BERT's tokenizer (Devlin et al. 2019), made of a vocabulary.

#include <filesystem>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "tokenizer.hpp"

namespace gradus {

/// The parts of BERT's tokenizer: WordPiece of words between white space and punctuation, with [CLS] and [SEP] around
/// texts. [PAD], [UNK], [CLS], [SEP] and [MASK], where the vocabulary has them, are special tokens. Throws
/// gradus::error without [CLS] or [SEP].
tokenizer_parts bert_parts(token_table vocabulary, normalizers::bert normalizer = {});

/// Reads a vocabulary of BERT (vocab.txt): one token in each line, whose id is the number of the lines before it.
/// Throws gradus::error, too, for a file that is missing or not UTF-8.
tokenizer read_bert_vocabulary(const std::filesystem::path& path, normalizers::bert normalizer = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "bert_tokenizer.ipp"
#endif
