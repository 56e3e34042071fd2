// The activities in progress by the moment they end: a 4-ary heap that knows where each stands, so
// that a change of rate moves an entry. Equal moments come out by activity number.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/ids.h"

namespace twinstep {

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  Picoseconds next_time() const { return heap_.front().time; }
  std::uint32_t next_activity() const { return heap_.front().activity; }
  bool Contains(std::uint32_t activity) const {
    return activity < place_.size() && place_[activity] != kNone;
  }

  // Enters an activity, or moves it.
  void Set(std::uint32_t activity, Picoseconds time) {
    if (activity >= place_.size()) place_.resize(activity + 1, kNone);
    const Entry entry{time, activity};
    std::uint32_t at = place_[activity];
    if (at == kNone) {
      at = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back(entry);
      Rise(at, entry);
    } else if (Before(entry, heap_[at])) {
      Rise(at, entry);
    } else {
      Sink(at, entry);
    }
  }

  void Pop() {
    place_[heap_.front().activity] = kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) Sink(0, last);
  }

 private:
  struct Entry {
    Picoseconds time;
    std::uint32_t activity;
  };
  static bool Before(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time < b.time : a.activity < b.activity;
  }
  void Put(std::uint32_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.activity] = at;
  }
  void Rise(std::uint32_t at, const Entry& entry) {
    while (at > 0) {
      const std::uint32_t parent = (at - 1) / 4;
      if (!Before(entry, heap_[parent])) break;
      Put(at, heap_[parent]);
      at = parent;
    }
    Put(at, entry);
  }
  void Sink(std::uint32_t at, const Entry& entry) {
    const auto size = static_cast<std::uint32_t>(heap_.size());
    for (;;) {
      const std::uint32_t first = 4 * at + 1;
      if (first >= size) break;
      const std::uint32_t end = first + 4 < size ? first + 4 : size;
      std::uint32_t least = first;
      for (std::uint32_t child = first + 1; child < end; ++child) {
        if (Before(heap_[child], heap_[least])) least = child;
      }
      if (!Before(heap_[least], entry)) break;
      Put(at, heap_[least]);
      at = least;
    }
    Put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  // By activity; kNone = not in the heap.
};

}  // namespace twinstep
