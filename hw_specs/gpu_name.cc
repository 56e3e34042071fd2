#include "hw_specs/gpu_name.h"

namespace twinstep {
namespace {

std::string_view WithoutMaker(std::string_view name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  return name.starts_with(kMaker) ? name.substr(kMaker.size()) : name;
}

}  // namespace

bool IsSameGpu(std::string_view a, std::string_view b) {
  return !a.empty() && WithoutMaker(a) == WithoutMaker(b);
}

}  // namespace twinstep
