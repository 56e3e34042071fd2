#include "exec/cuda/placement.h"

#include <algorithm>

namespace twinstep::cuda {

std::vector<std::size_t> PlaceRanks(std::size_t ranks, std::size_t gpus) {
  std::vector<std::size_t> gpu(ranks);
  const std::size_t used = std::min(ranks, gpus);
  for (std::size_t rank = 0; rank < ranks; ++rank) gpu[rank] = rank * used / ranks;
  return gpu;
}

}  // namespace twinstep::cuda
