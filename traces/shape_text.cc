#include "traces/shape_text.h"

#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of the dimensions in order; what is not named is not shown.
std::vector<const char*> DimensionNames(OpCode op) {
  switch (op) {
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
      return {"n", "out", "in"};
    case OpCode::kNormForward:
    case OpCode::kNormBackward:
      return {"n", "h"};
    case OpCode::kSplitQkv:
    case OpCode::kSplitQkvBackward:
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
    case OpCode::kAttentionScores:
    case OpCode::kSoftmaxForward:
    case OpCode::kAttentionContext:
    case OpCode::kAttentionContextBackward:
    case OpCode::kSoftmaxBackward:
    case OpCode::kAttentionScoresBackward:
      return {"b", "heads", "kv heads", "s_q", "s_kv", "head dim"};
    case OpCode::kActivationForward:
    case OpCode::kActivationBackward:
    case OpCode::kSiluForward:
    case OpCode::kSiluBackward:
    case OpCode::kMulForward:
    case OpCode::kMulBackward:
    case OpCode::kAdd:
    case OpCode::kDropoutAdd:
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
      return {"n", "f"};
    case OpCode::kEmbeddingForward:
    case OpCode::kEmbeddingBackward:
      return {"n", "h", "V"};
    case OpCode::kCrossEntropyStats:
    case OpCode::kCrossEntropyLoss:
    case OpCode::kCrossEntropyBackward:
      return {"n", "V"};
    case OpCode::kAdam:
    case OpCode::kGradNorm:
      return {"elements"};
    case OpCode::kCopyOnDevice:
      return {"bytes"};
    case OpCode::kClipCoefficient:
    case OpCode::kAccumulate:
    case OpCode::kCopyH2D:
    case OpCode::kCopyD2H:
    case OpCode::kSend:
    case OpCode::kRecv:
    case OpCode::kAllReduce:
    case OpCode::kAllGather:
    case OpCode::kReduceScatter:
    case OpCode::kRingShift:
      return {};
  }
  return {};
}

}  // namespace

std::string ShapeText(const OpShape& shape) {
  const std::vector<const char*> names = DimensionNames(shape.op);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += StrCat(i == 0 ? "" : " x ", names[i], " ", shape.dims[i]);
  }
  return text.empty() ? text : StrCat(text, ", ", Name(shape.dtype));
}

}  // namespace twinstep
