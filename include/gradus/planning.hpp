#pragma once
/// @file
/// Memory of a step before it runs: what it takes (`trace_step`, `summarize_step`), where its blocks lie in one
/// workspace (`make_plan`), which activations it keeps or recomputes within a budget (`recompute_schedule`).

#include "gradus.hpp"
//
#include "plan/placement.hpp"
#include "plan/recompute_schedule.hpp"
#include "plan/step_summary.hpp"
