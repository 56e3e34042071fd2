// The factors of cluster.proto's Interference, as a list.
//
//   for (const auto& [name, factor] : InterferenceFactors(cluster.gpu().interference())) ...
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hw_specs/cluster.pb.h"

namespace twinstep {

// Every field's name and value, in the order of the message; 0 where it is not given.
std::vector<std::pair<std::string, double>> InterferenceFactors(const Interference& interference);

}  // namespace twinstep
