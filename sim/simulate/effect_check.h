// Options that changed nothing are reported: each is left out once, and the iteration replayed.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate/options.h"
#include "sim/simulate/simulation.h"

namespace twinstep {

// Graphs above this are not replayed again: the warning says so.
inline constexpr std::int64_t kMaxTasksOfEffectCheck = 3'000'000;

// How many options OptionsWithoutEffect tries, each a step of progress.
std::size_t StepsOfEffectCheck(const Options& options);

// A warning for each option of `options` without which iteration time and peak memory are the
// same to the picosecond and byte. Options that repeat a default are no news, and those that
// always mean something (sizes, limits, outputs) are not tried, nor are fields of a sweep. `base`
// is Simulate's answer to `input`, the first point of a sweep.
std::vector<std::string> OptionsWithoutEffect(const Options& options, const SimulateInput& input,
                                              const Simulation& base, Progress* progress);

}  // namespace twinstep
