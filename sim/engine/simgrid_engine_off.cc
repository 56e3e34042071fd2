#include <memory>

#include "sim/engine/engine.h"

namespace twinstep {

std::unique_ptr<Engine> MakeSimgridEngine() { return nullptr; }

}  // namespace twinstep
