#pragma once
/// @file
/// Planning of memory: what a step takes and when (`plan`, `trace_step`), where its blocks lie in one workspace
/// (`make_plan`), and which activations are kept or computed again within a budget (`schedule`).

#include "gradus.hpp"
//
#include "meta/placement.hpp"
#include "meta/plan.hpp"
#include "meta/schedule.hpp"
