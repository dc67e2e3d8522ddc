#pragma once
/// @file
/// Several devices: communicators of ranks, and sums over ranks. Beside gradus.hpp; needs threads (-pthread).

#include "core/config.hpp"
//
#include "ranks/communicator.hpp"
#include "ranks/cpu/tree_sum.hpp"
#include "ranks/texts.hpp"
#include "ranks/thread_communicator.hpp"
