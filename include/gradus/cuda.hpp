#pragma once
/// @file
/// The GPU: what a .cu file includes. It does not bring in the CPU's kernels: a program that
/// computes on both includes gradus/gradus.hpp too.

#if !defined(__CUDACC__)
#error "gradus/cuda.hpp holds GPU code: include it from a .cu file, which nvcc compiles"
#endif

#include "autodiff/apply.hpp"
#include "autodiff/backward.hpp"
#include "autodiff/chain.hpp"
#include "autodiff/checkpoint.hpp"
#include "autodiff/tape.hpp"
#include "core/config.hpp"
#include "cuda/access.hpp"
#include "cuda/resource.hpp"
#include "cuda/stream.hpp"
#include "memory/arena_resource.hpp"
#include "memory/context.hpp"
#include "memory/limit_resource.hpp"
#include "memory/planned_resource.hpp"
#include "memory/pool_resource.hpp"
#include "memory/stats_resource.hpp"
#include "memory/synchronized_resource.hpp"
#include "memory/tracking_resource.hpp"
#include "nn/init.hpp"
#include "nn/module.hpp"
#include "ops/broadcast/cuda.hpp"
#include "ops/cross_entropy/cuda.hpp"
#include "ops/elementwise/cuda.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/matmul/cuda.hpp"
#include "ops/reduce/cuda.hpp"
#include "ops/reshape/reshape.hpp"
#include "optim/adamw.hpp"
#include "optim/cuda.hpp"
#include "optim/schedule.hpp"
#include "optim/sgd.hpp"
#include "precision/policy.hpp"
#include "tensor/creation.hpp"
#include "tensor/param.hpp"
#include "tensor/tensor.hpp"
