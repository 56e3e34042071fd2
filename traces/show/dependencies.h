// What the events of a trace waited for, and the chain of them that made it as long as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/result.h"
#include "traces/show/timeline.h"
#include "traces/trace.pb.h"

namespace twinstep {

// In compressed rows; events are places in a Timeline. Lane order is not among them.
class Dependencies {
 public:
  // Nothing where the trace does not know its graph. An Error (kBadInput) names an event that waits
  // for a task which the trace does not have.
  static Result<std::optional<Dependencies>> Of(const Trace& trace, const Timeline& timeline);

  std::span<const std::uint32_t> Before(std::size_t place) const {
    return {places_.data() + row_[place], row_[place + 1] - row_[place]};
  }

 private:
  std::vector<std::size_t> row_;
  std::vector<std::uint32_t> places_;
};

// Places of the events back from the one that ended last, each followed by what it waited for
// longest: the event before it in its row, a dependency, or what held up the last member of its
// rendezvous. Ascending in time.
std::vector<std::uint32_t> CriticalEvents(const Trace& trace, const Timeline& timeline,
                                          const Dependencies& dependencies);

}  // namespace twinstep
