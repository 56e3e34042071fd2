#include "exec/runtime/tensor_dtype.h"

#include <array>

namespace twinstep {
namespace {

// By Dtype.
constexpr std::array<const char*, kDtypeCount> kNames = {"BF16", "F16", "F32", "F64", "I32", "U8"};

}  // namespace

std::string SafetensorsDtype(Dtype dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<Dtype> DtypeOfSafetensors(const std::string& name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

}  // namespace twinstep
