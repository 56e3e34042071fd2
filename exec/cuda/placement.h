// Which GPU of this machine each rank of a plan runs on.
//
//   PlaceRanks(/*ranks=*/4, /*gpus=*/2);  // {0, 0, 1, 1}
#pragma once

#include <cstddef>
#include <vector>

#include "sim/result.h"

namespace twinstep::cuda {

// By rank, in 0 .. min(gpus, ranks) - 1: a rank a GPU where there are enough, else neighbours
// share, as evenly as they can. `ranks` and `gpus` are positive.
std::vector<std::size_t> PlaceRanks(std::size_t ranks, std::size_t gpus);

// The first GPU of a process with `ranks` ranks, a GPU each, that is the `local_rank`-th of its
// host. A launcher may show each process the host's GPUs or just its own. An Error says how many
// are needed.
Result<int> FirstGpuOfProcess(int ranks, int local_rank, int visible_gpus);

}  // namespace twinstep::cuda
