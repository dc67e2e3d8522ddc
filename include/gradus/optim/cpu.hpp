#pragma once
// The CPU's kernels of all optimizers.

#include "cpu/adafactor.hpp"
#include "cpu/adamw_8bit.hpp"
#include "cpu/element.hpp"
#include "cpu/muon.hpp"
#include "cpu/weight_average.hpp"
