#include "sim/graph/find_op.h"

namespace twinstep {

std::optional<OpCode> FindOp(std::string_view name) {
  for (int i = 0; i < kOpCodeCount; ++i) {
    if (name == Name(static_cast<OpCode>(i))) return static_cast<OpCode>(i);
  }
  return std::nullopt;
}

std::optional<Dtype> FindDtype(std::string_view name) {
  for (const Dtype dtype :
       {Dtype::kBf16, Dtype::kFp16, Dtype::kFp32, Dtype::kFp64, Dtype::kInt32, Dtype::kUint8}) {
    if (name == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace twinstep
