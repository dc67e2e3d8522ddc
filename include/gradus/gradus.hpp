#pragma once
/// @file
/// Everything for the CPU (and for `meta`). gradus/cuda.hpp adds the GPU.

#include "autodiff/backward.hpp"
#include "autodiff/tape.hpp"
#include "core/config.hpp"
#include "cpu/access.hpp"
#include "memory/context.hpp"
#include "memory/host_resource.hpp"
#include "memory/limit_resource.hpp"
#include "memory/stats_resource.hpp"
#include "meta/accounting.hpp"
#include "ops/elementwise/cpu.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/matmul/cpu.hpp"
#include "precision/policy.hpp"
#include "tensor/creation.hpp"
#include "tensor/param.hpp"
#include "tensor/tensor.hpp"
