#include "exec/cuda/placement.h"

#include <algorithm>

#include "sim/str_cat.h"

namespace twinstep::cuda {

std::vector<std::size_t> PlaceRanks(std::size_t ranks, std::size_t gpus) {
  std::vector<std::size_t> gpu(ranks);
  const std::size_t used = std::min(ranks, gpus);
  for (std::size_t rank = 0; rank < ranks; ++rank) gpu[rank] = rank * used / ranks;
  return gpu;
}

Result<int> FirstGpuOfProcess(int ranks, int local_rank, int visible_gpus) {
  if ((local_rank + 1) * ranks <= visible_gpus) return local_rank * ranks;
  if (ranks == visible_gpus) return 0;
  return Error{.code = ExitCode::kNo,
               .message = StrCat("process ", local_rank, " of this host needs ", ranks,
                                 " GPUs behind those of the processes before it, and ",
                                 visible_gpus, " are visible"),
               .rule = "cuda-devices"};
}

}  // namespace twinstep::cuda
