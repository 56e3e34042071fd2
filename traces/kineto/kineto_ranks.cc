#include "traces/kineto/kineto_ranks.h"

#include <set>

#include "sim/str_cat.h"

namespace twinstep {

Result<std::vector<KinetoRank>> RanksOf(std::span<const KinetoTrace> files) {
  std::vector<KinetoRank> ranks;
  std::set<std::int64_t> numbers;
  bool by_file = true;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const KinetoTrace& file = files[i];
    std::set<std::int64_t> devices;
    for (const DeviceEvent& event : file.device) devices.insert(file.streams[event.stream].device);
    const bool is_numbered = file.rank && *file.rank >= 0 && *file.rank < UINT32_MAX;
    if (is_numbered && !numbers.insert(*file.rank).second) {
      return Error{.message = StrCat(file.path, ": is a second file of rank ", *file.rank)};
    }
    by_file = by_file && is_numbered && devices.size() <= 1;
    if (devices.empty()) ranks.push_back({.number = 0, .file = i, .device = {}});
    for (const std::int64_t device : devices) {
      ranks.push_back({.number = 0, .file = i, .device = device});
    }
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].number = static_cast<std::uint32_t>(by_file ? *files[ranks[i].file].rank
                                                         : static_cast<std::int64_t>(i));
  }
  return ranks;
}

}  // namespace twinstep
