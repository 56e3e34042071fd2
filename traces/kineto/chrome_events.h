// The events of a Chrome trace file, one after the other, in bounded memory: Kineto's (PyTorch's
// profiler) and any other's, compressed by gzip or not.
//
//   class Counter : public ChromeEventSink { ... };
//   Status read = ReadChromeEvents("rank0.pt.trace.json.gz", &counter);
//
// Times are exact: microseconds with a fraction become whole nanoseconds, never floating point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"
#include "traces/kineto/byte_source.h"

namespace twinstep {

struct ChromeArgument {
  std::string name, value;  // Strings as they are; numbers and words as the file writes them.
};

struct ChromeEvent {
  std::string phase;  // "X": a complete event; "M", "C", "s", "f", "i" ...
  std::string name, category, process, thread;
  std::string id;  // Of asynchronous events and flows; of "id2" what it holds.
  // Missing where the file has none, or null, NaN or an infinity.
  std::optional<std::int64_t> start_ns, duration_ns;
  // Our own files': "ps" [ready, start, end], or [time] of a counter.
  std::vector<std::int64_t> exact_ps;
  std::vector<std::int64_t> dependencies;  // Our own files': "deps".
  std::size_t index = 0;                   // In the file, from 0.

  // Null where the event has none of the name. Arguments that are lists are left out.
  const std::string* Find(std::string_view argument_name) const;

  // For the reader: strings keep their memory from event to event.
  void Clear();
  ChromeArgument& AddArgument();

 private:
  std::vector<ChromeArgument> arguments_;
  std::size_t argument_count_ = 0;
};

// What takes the events. An Error ends the reading.
class ChromeEventSink {
 public:
  virtual ~ChromeEventSink() = default;
  // A value outside of the events by its path: "distributedInfo.rank", "deviceProperties.0.name".
  virtual Status OnHeader(std::string_view path, std::string_view value) = 0;
  virtual Status OnEvent(const ChromeEvent& event) = 0;
  // A bare list of events ends with the file, without its bracket, as the format allows.
  virtual void OnUnclosedList() {}
};

// Errors (kBadInput) name the file: cut short, no JSON (at which byte), no trace, a time that is no
// number (of which event), or the sink's own.
Status ReadChromeEvents(const std::string& path, ChromeEventSink* sink);
// The same of bytes that are there; `name` stands for the file in errors.
Status ReadChromeEvents(ByteSource& source, const std::string& name, ChromeEventSink* sink);

// "12.3456" microseconds are 12346 nanoseconds (rounded). Nothing where the text is no number or
// beyond 292 years.
std::optional<std::int64_t> ParseMicroseconds(std::string_view text);

}  // namespace twinstep
