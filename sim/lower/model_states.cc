#include "sim/lower/model_states.h"

#include "sim/lower/chunk_manager.h"
#include "sim/lower/zero_states.h"

namespace twinstep {

std::unique_ptr<ModelStates> MakeModelStates(const RankContext& context, GraphWriter* writer) {
  if (context.chunks != nullptr) return std::make_unique<ChunkManager>(context, writer);
  return std::make_unique<ZeroStates>(context, writer);
}

}  // namespace twinstep
