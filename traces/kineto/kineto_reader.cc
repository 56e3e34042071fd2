#include "traces/kineto/kineto_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/lower_case.h"
#include "sim/str_cat.h"
#include "traces/kineto/chrome_events.h"
#include "traces/kineto/kineto_category.h"
#include "traces/kineto/span_matcher.h"
#include "traces/valid_utf8.h"

namespace twinstep {
namespace {

// Processes of PyTorch's profiler before Kineto; a thread of the latter is a device.
constexpr std::string_view kOldHost = "CPU functions", kOldDevices = "CUDA functions";
constexpr std::string_view kStep = "ProfilerStep#";
constexpr char kDigits[] = "0123456789";
// Beside the begins of spans, which are counted by category.
constexpr char kEnds[] = "ends of begin and end pairs";
constexpr std::int64_t kNever_ns = -1;

// A time and the file's base together fit in 64 bits.
constexpr std::int64_t kLatest_ns = INT64_MAX / 2;

std::optional<std::int64_t> Integer(const std::string* text) {
  if (text == nullptr) return std::nullopt;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, value);
  if (code != std::errc()) return std::nullopt;
  // 4096.0 is 4096, too.
  if (stop != end && *stop != '.') return std::nullopt;
  return value;
}

// Bytes of an element by PyTorch's names of types.
std::int64_t ElementBytes(std::string_view dtype) {
  const std::string lower = LowerCase(dtype);
  const auto has = [&lower](std::string_view what) {
    return lower.find(what) != std::string::npos;
  };
  if (has("8") || has("byte") || has("char") || has("bool")) return 1;
  if (has("16") || has("half") || has("short")) return 2;
  if (has("64") || has("double") || has("long")) return 8;
  return 4;
}

// Numbers texts in order of their first appearance.
class Interner {
 public:
  explicit Interner(std::vector<std::string>* texts) : texts_(texts) {}
  std::uint32_t operator()(const std::string& text) {
    const auto [at, is_new] = index_.try_emplace(text, static_cast<std::uint32_t>(texts_->size()));
    if (is_new) texts_->push_back(ValidUtf8(text));
    return at->second;
  }

 private:
  std::vector<std::string>* texts_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

class Collector : public ChromeEventSink {
 public:
  Collector() : name_(&trace_.names), thread_(&trace_.threads) {}

  Status OnHeader(std::string_view path, std::string_view value) override {
    const std::string text(value);
    if (path == "distributedInfo.rank") {
      trace_.rank = Integer(&text);
    } else if (path == "distributedInfo.world_size") {
      trace_.world_size = Integer(&text);
    } else if (path == "baseTimeNanoseconds") {
      trace_.base_ns = std::clamp<std::int64_t>(Integer(&text).value_or(0), 0, kLatest_ns);
    } else if (path.starts_with("deviceProperties.") && path.ends_with(".name")) {
      trace_.device_names.push_back(text);
    }
    return Unit{};
  }

  Status OnEvent(const ChromeEvent& event) override {
    ++trace_.counts.events;
    const SpanPart part = PartOf(event.phase);
    if (part == SpanPart::kNone) {
      ++trace_.counts.skipped[OtherPhase(event.phase)];
      return Unit{};
    }
    if (!event.start_ns || (part == SpanPart::kWhole && !event.duration_ns)) {
      ++trace_.counts.skipped[part == SpanPart::kWhole ? "without begin or duration"
                                                       : "begins and ends without a time"];
      return Unit{};
    }
    const std::int64_t duration_ns = part == SpanPart::kWhole ? *event.duration_ns : 0;
    if (*event.start_ns < 0 || duration_ns < 0) {
      return Error{.message = StrCat("event ", event.index, " (", event.name.substr(0, 60),
                                     ") has a negative time: it begins at ", *event.start_ns,
                                     " ns and lasts ", duration_ns, " ns")};
    }
    if (*event.start_ns > kLatest_ns || duration_ns > kLatest_ns - *event.start_ns) {
      return Error{.message = StrCat("event ", event.index, " (", event.name.substr(0, 60),
                                     ") ends later than 146 years from the clock's begin")};
    }
    switch (part) {
      case SpanPart::kBegin:
        spans_.push_back({Keep(event, 0), IsAsynchronous(event), name_(event.name)});
        matcher_.Begin(Track(event), *event.start_ns, spans_.back().name,
                       static_cast<std::uint32_t>(spans_.size() - 1));
        break;
      case SpanPart::kEnd:
        matcher_.End(Track(event), *event.start_ns,
                     event.name.empty() ? kNoIndex : name_(event.name));
        break;
      default:
        Keep(event, duration_ns);
    }
    return Unit{};
  }

  void OnUnclosedList() override { trace_.is_unclosed = true; }

  KinetoTrace Finish() {
    FinishSpans();
    std::stable_sort(trace_.steps.begin(), trace_.steps.end(),
                     [](const StepMark& a, const StepMark& b) { return a.start_ns < b.start_ns; });
    // A launch by its correlation; if several calls share one, the first.
    std::vector<std::pair<std::int64_t, std::uint32_t>> by_correlation;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      by_correlation.emplace_back(trace_.calls[i].correlation, i);
    }
    std::sort(by_correlation.begin(), by_correlation.end());
    // Most profilers count from 1, and 0 is none.
    const auto zeros = std::count_if(trace_.device.begin(), trace_.device.end(),
                                     [](const DeviceEvent& x) { return x.correlation == 0; });
    for (DeviceEvent& event : trace_.device) {
      if (event.correlation < 0 || (event.correlation == 0 && zeros > 1)) continue;
      const auto at = std::lower_bound(by_correlation.begin(), by_correlation.end(),
                                       std::pair{event.correlation, std::uint32_t{0}});
      if (at != by_correlation.end() && at->first == event.correlation) event.call = at->second;
    }
    return std::move(trace_);
  }

 private:
  static std::string OtherPhase(const std::string& phase) {
    if (phase == "M") return "names of processes and threads";
    if (phase == "s" || phase == "t" || phase == "f")
      return "flow arrows (correlations repeat them)";
    if (phase == "i" || phase == "I" || phase == "R") return "instants";
    if (phase == "n" || phase == "T" || phase == "p") return "instants of asynchronous spans";
    if (phase == "C") return "counters";
    if (phase.empty()) return "without phase";
    return StrCat("of phase ", phase.substr(0, 8));
  }

  // What an event is of a span.
  enum class SpanPart : std::uint8_t { kNone, kWhole, kBegin, kEnd };
  static SpanPart PartOf(std::string_view phase) {
    if (phase == "X") return SpanPart::kWhole;
    if (phase == "B" || phase == "b" || phase == "S") return SpanPart::kBegin;
    if (phase == "E" || phase == "e" || phase == "F") return SpanPart::kEnd;
    return SpanPart::kNone;
  }
  // Of an operation that no thread runs, but an id names ("S" and "F" in older files).
  static bool IsAsynchronous(const ChromeEvent& event) {
    return event.phase != "B" && event.phase != "E";
  }

  // Where an event is kept.
  struct Place {
    std::vector<HostSpan>* spans = nullptr;  // One of the trace's lists.
    bool is_call = false, is_device = false, is_step = false;
    std::size_t index = 0;          // In the list.
    std::int64_t* count = nullptr;  // Where it is counted.
    bool is_skipped = false;
  };
  // A span that begins with an event of its own.
  struct OpenSpan {
    Place place;
    bool is_asynchronous = false;
    std::uint32_t name = 0;
  };

  // Spans of one track nest.
  std::uint32_t Track(const ChromeEvent& event) {
    track_key_.assign(event.process).append("/");
    if (IsAsynchronous(event)) {
      track_key_.append("async/").append(event.category).append("/").append(event.id);
    } else {
      track_key_.append(event.thread);
    }
    return tracks_.try_emplace(track_key_, static_cast<std::uint32_t>(tracks_.size()))
        .first->second;
  }

  std::int64_t& EndOf(const Place& place) {
    if (place.is_device) return trace_.device[place.index].end_ns;
    if (place.is_call) return trace_.calls[place.index].span.end_ns;
    if (place.is_step) return trace_.steps[place.index].end_ns;
    return (*place.spans)[place.index].end_ns;
  }
  static bool IsKept(const Place& place) {
    return place.is_device || place.is_call || place.is_step || place.spans != nullptr;
  }

  // Gives spans that begin and end in two events their ends. What has none is left out.
  void FinishSpans() {
    if (spans_.empty() && matcher_.empty()) return;
    const MatchedSpans spans = matcher_.Run();
    std::vector<MatchedSpan> asynchronous;
    for (const MatchedSpan& match : spans.matched) {
      const OpenSpan& span = spans_[match.span];
      if (span.place.is_skipped) {
        ++*span.place.count;
        continue;
      }
      ++trace_.counts.read[kEnds];
      if (!IsKept(span.place)) continue;
      EndOf(span.place) = match.end_ns;
      if (span.is_asynchronous && span.place.spans != nullptr) asynchronous.push_back(match);
    }
    SpreadAsynchronous(std::move(asynchronous));
    std::vector<std::uint32_t> without_end, without_begin;
    for (const std::uint32_t span : spans.unended) {
      --*spans_[span].place.count;
      if (IsKept(spans_[span].place)) EndOf(spans_[span].place) = kNever_ns;
      without_end.push_back(spans_[span].name);
    }
    for (const std::uint32_t name : spans.unbegun) without_begin.push_back(name);
    CountUnmatched("begins without an end", without_end);
    CountUnmatched("ends without a begin", without_begin);
    if (without_end.empty()) return;
    for (std::vector<HostSpan>* list : {&trace_.host_ops, &trace_.annotations, &trace_.unknown}) {
      std::erase_if(*list, [](const HostSpan& span) { return span.end_ns == kNever_ns; });
    }
    std::erase_if(trace_.device, [](const DeviceEvent& x) { return x.end_ns == kNever_ns; });
    std::erase_if(trace_.calls, [](const HostCall& x) { return x.span.end_ns == kNever_ns; });
    std::erase_if(trace_.steps, [](const StepMark& x) { return x.end_ns == kNever_ns; });
    for (auto* counts : {&trace_.counts.read, &trace_.counts.unknown, &trace_.counts.skipped}) {
      std::erase_if(*counts, [](const auto& entry) { return entry.second == 0; });
    }
  }

  // "begins without an end (as load, evaluate)".
  void CountUnmatched(std::string_view what, const std::vector<std::uint32_t>& names) {
    if (names.empty()) return;
    constexpr std::size_t kShown = 3;
    std::vector<std::uint32_t> shown;
    std::string list;
    for (const std::uint32_t name : names) {
      if (shown.size() == kShown) break;
      if (name == kNoIndex || std::find(shown.begin(), shown.end(), name) != shown.end()) continue;
      shown.push_back(name);
      list += StrCat(list.empty() ? " (as " : ", ", trace_.names[name].substr(0, 60));
    }
    trace_.counts.skipped[StrCat(what, list, list.empty() ? "" : ")")] +=
        static_cast<std::int64_t>(names.size());
  }

  // Asynchronous spans overlap: each goes to a lane that is free, as a thread of its process.
  void SpreadAsynchronous(std::vector<MatchedSpan> spans) {
    std::map<std::uint32_t, std::vector<MatchedSpan>> by_thread;
    for (const MatchedSpan& span : spans) {
      const Place& place = spans_[span.span].place;
      by_thread[(*place.spans)[place.index].thread].push_back(span);
    }
    for (auto& [thread, of_thread] : by_thread) {
      std::stable_sort(
          of_thread.begin(), of_thread.end(),
          [](const MatchedSpan& a, const MatchedSpan& b) { return a.start_ns < b.start_ns; });
      const std::vector<std::uint32_t> lanes = SpreadOverLanes(of_thread);
      for (std::size_t i = 0; i < of_thread.size(); ++i) {
        if (lanes[i] == 0) continue;
        const Place& place = spans_[of_thread[i].span].place;
        const std::string name = StrCat(trace_.threads[thread], " (", lanes[i] + 1, ")");
        (*place.spans)[place.index].thread = thread_(name);
      }
    }
  }

  HostSpan Span(const ChromeEvent& event, std::int64_t duration_ns) {
    thread_key_.assign(event.process).append("/");
    if (event.phase != "X" && IsAsynchronous(event)) {
      thread_key_.append("async ").append(event.category);
    } else {
      thread_key_.append(event.thread);
    }
    return {*event.start_ns, *event.start_ns + duration_ns, thread_(thread_key_),
            name_(event.name)};
  }

  std::uint32_t Stream(const ChromeEvent& event, const std::string* stream) {
    if (stream == nullptr) stream = &event.thread;
    const std::string* device = event.Find("device");
    if (device == nullptr) {
      device = event.process == kOldDevices ? &event.thread : &event.process;
    }
    stream_key_.assign(*device).append("/").append(*stream);
    const auto [at, is_new] =
        streams_.try_emplace(stream_key_, static_cast<std::uint32_t>(trace_.streams.size()));
    if (is_new) trace_.streams.push_back({DeviceNumber(*device), ValidUtf8(*stream)});
    return at->second;
  }

  // 3 of "3" and "GPU 3"; other names are numbered by their first appearance.
  std::int64_t DeviceNumber(const std::string& device) {
    if (const auto number = Integer(&device)) return *number;
    const std::string digits = device.substr(device.find_last_not_of(kDigits) + 1);
    if (const auto number = Integer(&digits)) return *number;
    return devices_.try_emplace(device, static_cast<std::int64_t>(devices_.size())).first->second;
  }

  // A stream that another event names, on the same device; "-1" is none.
  std::uint32_t NamedStream(const ChromeEvent& event, std::string_view argument) {
    const std::string* stream = event.Find(argument);
    if (stream == nullptr || stream->starts_with('-') || Integer(stream) == 0xffffffffLL) {
      return kNoIndex;
    }
    return Stream(event, stream);
  }

  Place KeepDevice(const ChromeEvent& event, std::int64_t duration_ns, DeviceKind kind) {
    DeviceEvent device;
    device.kind = kind;
    device.start_ns = *event.start_ns;
    device.end_ns = *event.start_ns + duration_ns;
    device.name = name_(event.name);
    device.stream = Stream(event, event.Find("stream"));
    device.correlation = Integer(event.Find("correlation")).value_or(-1);
    device.bytes = std::max<std::int64_t>(0, Integer(event.Find("bytes")).value_or(0));
    if (const std::string* collective = event.Find("Collective name")) {
      device.collective = name_(*collective);
      const std::string* dtype = event.Find("dtype");
      const std::int64_t elements = std::max(Integer(event.Find("In msg nelems")).value_or(0),
                                             Integer(event.Find("Out msg nelems")).value_or(0));
      constexpr std::int64_t kMostElements = std::int64_t{1} << 56;
      device.bytes = std::clamp<std::int64_t>(elements, 0, kMostElements) *
                     ElementBytes(dtype == nullptr ? "" : *dtype);
      device.group_size = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(Integer(event.Find("Group size")).value_or(0), 0, 1 << 24));
      const std::string* group = event.Find("Process Group Name");
      if (group != nullptr) device.group = name_(*group);
      const std::string* partner = event.Find(*collective == "send" ? "Dst Rank" : "Src Rank");
      if (*collective == "send" || *collective == "recv") device.partner = Partner(event, partner);
    }
    trace_.device.push_back(device);
    return {.is_device = true, .index = trace_.device.size() - 1};
  }

  // The global rank of a message's other end: `number` counts in its process group, whose ranks the
  // event lists; where it cannot, it is global already.
  static std::int64_t Partner(const ChromeEvent& event, const std::string* number) {
    const std::int64_t partner = Integer(number).value_or(-1);
    const std::string* list = event.Find("Process Group Ranks");
    if (partner < 0 || list == nullptr) return partner;
    std::vector<std::int64_t> ranks;
    for (std::size_t i = list->find_first_of(kDigits); i != std::string::npos;
         i = list->find_first_of(kDigits, i)) {
      const std::size_t end = std::min(list->find_first_not_of(kDigits, i), list->size());
      const std::string text = list->substr(i, end - i);
      ranks.push_back(Integer(&text).value_or(-1));
      i = end;
    }
    const auto index = static_cast<std::size_t>(partner);
    return index < ranks.size() ? ranks[index] : partner;
  }

  void KeepSync(const ChromeEvent& event) {
    SyncEvent sync;
    sync.correlation = Integer(event.Find("correlation")).value_or(-1);
    sync.recorded_by = Integer(event.Find("wait_on_cuda_event_record_corr_id")).value_or(-1);
    const std::string* kind = event.Find("cuda_sync_kind");
    const std::uint32_t stream = NamedStream(event, "stream");
    if ((kind == nullptr ? event.name : *kind) == "Stream Wait Event") {
      sync.stream = stream;
      sync.waited_stream = NamedStream(event, "wait_on_stream");
    } else {
      // The host waits, for an event of a stream, a stream, or all of them.
      const std::uint32_t waited = NamedStream(event, "wait_on_stream");
      sync.waited_stream = waited == kNoIndex ? stream : waited;
    }
    trace_.syncs.push_back(sync);
  }

  static bool IsStep(const ChromeEvent& event) { return event.name.starts_with(kStep); }

  Place KeepStep(const ChromeEvent& event, std::int64_t duration_ns) {
    const std::string number = event.name.substr(kStep.size());
    trace_.steps.push_back(
        {Integer(&number).value_or(0), *event.start_ns, *event.start_ns + duration_ns});
    return {.is_step = true, .index = trace_.steps.size() - 1};
  }

  Place KeepSpan(const ChromeEvent& event, std::int64_t duration_ns, std::vector<HostSpan>* list) {
    list->push_back(Span(event, duration_ns));
    return {.spans = list, .index = list->size() - 1};
  }

  // Keeps the event where its category belongs, and counts it.
  Place Keep(const ChromeEvent& event, std::int64_t duration_ns) {
    std::string category = LowerCase(event.category);
    // The profiler before Kineto has no categories.
    if (category.empty() && event.process == kOldDevices) category = "kernel";
    if (category.empty() && event.process == kOldHost) category = "cpu_op";
    Place place;
    switch (KinetoCategoryOf(category)) {
      case KinetoCategory::kKernel:
        place = KeepDevice(event, duration_ns, DeviceKind::kKernel);
        break;
      case KinetoCategory::kMemcpy:
        place = KeepDevice(event, duration_ns, DeviceKind::kMemcpy);
        break;
      case KinetoCategory::kMemset:
        place = KeepDevice(event, duration_ns, DeviceKind::kMemset);
        break;
      case KinetoCategory::kRuntime:
        trace_.calls.push_back(
            {Span(event, duration_ns), Integer(event.Find("correlation")).value_or(-1)});
        place = {.is_call = true, .index = trace_.calls.size() - 1};
        break;
      case KinetoCategory::kSync:
        KeepSync(event);
        break;
      case KinetoCategory::kHostOp:
        // Versions before 1.9 mark steps as operators.
        place = IsStep(event) ? KeepStep(event, duration_ns)
                              : KeepSpan(event, duration_ns, &trace_.host_ops);
        break;
      case KinetoCategory::kAnnotation:
        place = IsStep(event) ? KeepStep(event, duration_ns)
                              : KeepSpan(event, duration_ns, &trace_.annotations);
        break;
      case KinetoCategory::kDeviceAnnotation:
        return Skip("gpu_user_annotation (marks around kernels)");
      case KinetoCategory::kPython:
        return Skip("python_function (call stacks)");
      case KinetoCategory::kOverhead:
        return Skip("overhead (of the profiler)");
      case KinetoCategory::kProfiler:
        return Skip("Trace (span of the profiler)");
      case KinetoCategory::kUnknown:
        place = KeepSpan(event, duration_ns, &trace_.unknown);
        place.count = &trace_.counts.unknown[event.category.empty() ? "(none)" : event.category];
        ++*place.count;
        return place;
    }
    place.count = &trace_.counts.read[category];
    ++*place.count;
    return place;
  }

  Place Skip(const char* reason) {
    Place place{.count = &trace_.counts.skipped[reason], .is_skipped = true};
    ++*place.count;
    return place;
  }

  KinetoTrace trace_;
  Interner name_, thread_;
  std::unordered_map<std::string, std::uint32_t> streams_, tracks_;
  std::unordered_map<std::string, std::int64_t> devices_;
  std::string thread_key_, stream_key_, track_key_;
  SpanMatcher matcher_;
  std::vector<OpenSpan> spans_;
};

}  // namespace

Result<KinetoTrace> ReadKineto(ByteSource& source, const std::string& name) {
  Collector collector;
  const Status read = ReadChromeEvents(source, name, &collector);
  if (!read.ok()) return read.error();
  KinetoTrace trace = collector.Finish();
  trace.path = name;
  if (trace.device.empty() && trace.calls.empty() && trace.host_ops.empty() &&
      trace.annotations.empty() && trace.unknown.empty()) {
    std::string what;
    for (const auto* counts : {&trace.counts.read, &trace.counts.skipped}) {
      for (const auto& [reason, events] : *counts) {
        what += StrCat(what.empty() ? ": " : ", ", events, " ", reason);
      }
    }
    return Error{.message = StrCat(name, ": holds no kernel, copy, call, operator or other span (",
                                   trace.counts.events, " events", what, ")")};
  }
  return trace;
}

Result<KinetoTrace> ReadKineto(const std::string& path) {
  Result<ByteSource> source = ByteSource::Open(path);
  if (!source.ok()) return source.error();
  return ReadKineto(source.value(), path);
}

}  // namespace twinstep
