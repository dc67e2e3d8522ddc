#pragma once
/// @file
/// Several devices: communicators of ranks, and sums over ranks. Beside gradus.hpp; needs threads (-pthread).

#include "core/config.hpp"
//
#include "dist/communicator.hpp"
#include "dist/cpu/tree_sum.hpp"
#include "dist/texts.hpp"
#include "dist/thread_communicator.hpp"
