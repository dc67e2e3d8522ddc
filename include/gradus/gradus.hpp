#pragma once
/// @file
/// The library for the CPU (and for `meta`). gradus/planning.hpp adds planning, gradus/cuda.hpp adds GPUs.

// First: it rejects unsupported compilers and flags.
#include "core/config.hpp"

// Then, for short messages about functors and gradients.
#include "core/functor_number.hpp"
//
#include "autodiff/op.hpp"
//
#include "autodiff/apply.hpp"
#include "autodiff/backward.hpp"
#include "autodiff/checkpoint/chain.hpp"
#include "autodiff/checkpoint/checkpoint.hpp"
#include "autodiff/custom_op.hpp"
#include "autodiff/tape.hpp"
#include "autodiff/traced.hpp"
#include "cpu/access.hpp"
#include "memory/accounting.hpp"
#include "memory/arena_resource.hpp"
#include "memory/context.hpp"
#include "memory/host_resource.hpp"
#include "memory/limit_resource.hpp"
#include "memory/planned_resource.hpp"
#include "memory/pool_resource.hpp"
#include "memory/stats_resource.hpp"
#include "memory/synchronized_resource.hpp"
//
#include "ops/attention/cpu.hpp"
#include "ops/cross_entropy/cpu.hpp"
#include "ops/dropout/cpu.hpp"
#include "ops/elementwise/arithmetic.hpp"
#include "ops/elementwise/cpu.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/elementwise/selection.hpp"
#include "ops/embedding/cpu.hpp"
#include "ops/layer_norm/cpu.hpp"
#include "ops/linear_cross_entropy/cpu.hpp"
#include "ops/matmul/cpu.hpp"
#include "ops/permute/cpu.hpp"
#include "ops/reduce/cpu.hpp"
#include "ops/reshape/reshape.hpp"
#include "ops/rms_norm/cpu.hpp"
#include "ops/slice/cpu.hpp"
#include "ops/softmax/cpu.hpp"
//
#include "model/init.hpp"
#include "model/parameters.hpp"
#include "nn/key_value_cache.hpp"
#include "nn/layers.hpp"
#include "nn/transformer.hpp"
#include "optim/adafactor.hpp"
#include "optim/adamw.hpp"
#include "optim/adamw_8bit.hpp"
#include "optim/cpu/adafactor.hpp"
#include "optim/cpu/adamw_8bit.hpp"
#include "optim/cpu/element.hpp"
#include "optim/cpu/muon.hpp"
#include "optim/cpu/weight_average.hpp"
#include "optim/learning_rate.hpp"
#include "optim/lion.hpp"
#include "optim/muon.hpp"
#include "optim/sgd.hpp"
#include "optim/weight_average.hpp"
#include "precision/policy.hpp"
#include "tensor/creation.hpp"
#include "tensor/param.hpp"
#include "tensor/print.hpp"
#include "tensor/random.hpp"
#include "tensor/staging_buffer.hpp"
#include "tensor/tensor.hpp"
#include "testing/gradcheck.hpp"
//
#include "compiled_kernels.hpp"

/// Tensors with shape, element type and device in their type; gradients by a tape; models, optimizers, training runs.
namespace gradus {}
