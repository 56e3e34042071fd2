#include "hw_specs/profile_keys.h"

#include <cstdint>

#include "sim/lower_case.h"
#include "sim/str_cat.h"

namespace twinstep {

std::string KeyOf(const OperatorSample& sample) {
  std::string key = StrCat(sample.op(), " ", sample.dtype());
  for (const std::int64_t dim : sample.dims()) key += StrCat(" ", dim);
  if (sample.flags() != 0) key += StrCat(" flags ", sample.flags());
  if (sample.count() > 1) key += StrCat(" of ", sample.count(), " shards");
  if (sample.fusion() != OperatorSample::ALONE) {
    key += " " + LowerCase(OperatorSample::Fusion_Name(sample.fusion()));
  }
  return key + (sample.on_host() ? " on host" : "");
}

std::string KeyOf(const CopySample& sample) {
  return StrCat(sample.direction() == CopySample::H2D ? "copy_h2d" : "copy_d2h", " of ",
                sample.bytes(), " bytes");
}

std::string KeyOf(const CollectiveSample& sample) {
  std::string key = sample.op();
  if (!sample.dtype().empty()) key += StrCat(" ", sample.dtype());
  key += StrCat(" of ", sample.bytes(), " bytes among ", sample.group_size());
  if (sample.ranks_per_node() != sample.group_size()) {
    key += StrCat(", ", sample.ranks_per_node(), " of a node");
  }
  if (sample.in_place()) key += " in place";
  if (sample.flags() != 0) key += StrCat(" flags ", sample.flags());
  return key;
}

std::string KeyOf(const HostCopySample& sample) {
  return StrCat("copies of ", sample.up(), " GPUs up and ", sample.down(), " down");
}

}  // namespace twinstep
