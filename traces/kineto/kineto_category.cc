#include "traces/kineto/kineto_category.h"

#include <array>
#include <utility>

namespace twinstep {
namespace {

constexpr std::array<std::pair<std::string_view, KinetoCategory>, 27> kCategories = {{
    {"kernel", KinetoCategory::kKernel},
    {"concurrent_kernel", KinetoCategory::kKernel},
    {"gpu_memcpy", KinetoCategory::kMemcpy},
    {"memcpy", KinetoCategory::kMemcpy},
    {"gpu_memset", KinetoCategory::kMemset},
    {"memset", KinetoCategory::kMemset},
    {"cuda_runtime", KinetoCategory::kRuntime},
    {"cuda_driver", KinetoCategory::kRuntime},
    {"runtime", KinetoCategory::kRuntime},
    {"driver", KinetoCategory::kRuntime},
    {"hip_runtime", KinetoCategory::kRuntime},
    {"privateuse1_runtime", KinetoCategory::kRuntime},
    {"privateuse1_driver", KinetoCategory::kRuntime},
    {"xpu_runtime", KinetoCategory::kRuntime},
    {"xpu_driver", KinetoCategory::kRuntime},
    {"cuda_sync", KinetoCategory::kSync},
    {"cpu_op", KinetoCategory::kHostOp},
    {"operator", KinetoCategory::kHostOp},
    {"cpu_instant_event", KinetoCategory::kHostOp},
    {"user_annotation", KinetoCategory::kAnnotation},
    {"gpu_user_annotation", KinetoCategory::kDeviceAnnotation},
    {"python_function", KinetoCategory::kPython},
    {"python", KinetoCategory::kPython},
    {"overhead", KinetoCategory::kOverhead},
    {"trace", KinetoCategory::kProfiler},
    {"ac2g", KinetoCategory::kProfiler},
    {"fwdbwd", KinetoCategory::kProfiler},
}};

}  // namespace

KinetoCategory KinetoCategoryOf(std::string_view lower) {
  for (const auto& [name, category] : kCategories) {
    if (lower == name) return category;
  }
  return KinetoCategory::kUnknown;
}

}  // namespace twinstep
