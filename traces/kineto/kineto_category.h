// What an event of a profile is, by the category (`cat`) that the profiler gives it.
//
//   KinetoCategoryOf("gpu_memcpy")  // KinetoCategory::kMemcpy
#pragma once

#include <string_view>

namespace twinstep {

enum class KinetoCategory {
  kKernel,
  kMemcpy,
  kMemset,
  kRuntime,
  kSync,
  kHostOp,
  kAnnotation,
  kDeviceAnnotation,
  kPython,
  kOverhead,
  kProfiler,
  kUnknown,
};

// `lower`: in small letters, since older versions write capitals. Words of all versions, and of the
// profilers of AMD and Intel.
KinetoCategory KinetoCategoryOf(std::string_view lower);

}  // namespace twinstep
