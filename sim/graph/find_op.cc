#include "sim/graph/find_op.h"

namespace twinstep {

std::optional<OpCode> FindOp(std::string_view name) {
  for (int i = 0; i < kOpCodeCount; ++i) {
    if (name == Name(static_cast<OpCode>(i))) return static_cast<OpCode>(i);
  }
  return std::nullopt;
}

}  // namespace twinstep
