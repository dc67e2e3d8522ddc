// The functions of gradus that are neither templates nor kernels, compiled once per program, in the target
// gradus::compiled. A build without CMake compiles this file, too, with GRADUS_COMPILED defined for all sources.
#ifndef GRADUS_COMPILED
#define GRADUS_COMPILED 1
#endif

#include "autodiff/failures.ipp"
#include "cpu/processors.ipp"
#include "cpu/workers.ipp"
#include "data/batches.ipp"
#include "data/bpe.ipp"
#include "data/bpe_tables.ipp"
#include "data/bpe_trainer.ipp"
#include "data/gpt2_words.ipp"
#include "data/text.ipp"
#include "data/token_shard.ipp"
#include "data/tokens.ipp"
#include "data/unicode.ipp"
#include "io/atomic_file.ipp"
#include "io/config_file.ipp"
#include "io/mapped_file.ipp"
#include "io/random_access_file.ipp"
#include "memory/diagnostics.ipp"
#include "tensor/failures.ipp"
#include "train/anomaly.ipp"
#include "train/curve_svg.ipp"
#include "train/memory_report.ipp"
#include "train/memory_table.ipp"
#include "train/overfitting.ipp"
#include "train/perfetto.ipp"
#include "train/profile.ipp"
#include "train/progress.ipp"
#include "train/run_folder.ipp"
#include "train/run_log.ipp"
#include "train/run_saver.ipp"
#include "train/tensorboard.ipp"
#include "train/trace_times.ipp"

#if __has_include(<nlohmann/json.hpp>)  // without it, files that read JSON are omitted
#include "data/dataset.ipp"
#include "data/tokenizer_json.ipp"
#include "io/safetensors.ipp"
#include "io/sharded_safetensors.ipp"
#include "train/checkpoint.ipp"
#include "train/run_reporter.ipp"
#endif
