#include "traces/kineto/kineto_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/str_cat.h"
#include "traces/kineto/chrome_events.h"

namespace twinstep {
namespace {

enum class Category {
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

// In the words of all versions; older ones write capitals.
constexpr std::array<std::pair<std::string_view, Category>, 26> kCategories = {{
    {"kernel", Category::kKernel},
    {"concurrent_kernel", Category::kKernel},
    {"gpu_memcpy", Category::kMemcpy},
    {"memcpy", Category::kMemcpy},
    {"gpu_memset", Category::kMemset},
    {"memset", Category::kMemset},
    {"cuda_runtime", Category::kRuntime},
    {"cuda_driver", Category::kRuntime},
    {"runtime", Category::kRuntime},
    {"driver", Category::kRuntime},
    {"hip_runtime", Category::kRuntime},
    {"privateuse1_runtime", Category::kRuntime},
    {"privateuse1_driver", Category::kRuntime},
    {"xpu_runtime", Category::kRuntime},
    {"cuda_sync", Category::kSync},
    {"cpu_op", Category::kHostOp},
    {"operator", Category::kHostOp},
    {"cpu_instant_event", Category::kHostOp},
    {"user_annotation", Category::kAnnotation},
    {"gpu_user_annotation", Category::kDeviceAnnotation},
    {"python_function", Category::kPython},
    {"python", Category::kPython},
    {"overhead", Category::kOverhead},
    {"trace", Category::kProfiler},
    {"ac2g", Category::kProfiler},
    {"fwdbwd", Category::kProfiler},
}};

// A time and the file's base together fit in 64 bits.
constexpr std::int64_t kLatest_ns = INT64_MAX / 2;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Category CategoryOf(std::string_view lower) {
  for (const auto& [name, category] : kCategories) {
    if (lower == name) return category;
  }
  return Category::kUnknown;
}

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
  const std::string lower = Lower(dtype);
  const auto has = [&lower](std::string_view what) {
    return lower.find(what) != std::string::npos;
  };
  if (has("8") || has("byte") || has("char") || has("bool")) return 1;
  if (has("16") || has("half") || has("short")) return 2;
  if (has("64") || has("double") || has("long")) return 8;
  return 4;
}

// The text with '?' for every byte that is not part of UTF-8: a Trace holds nothing else.
std::string ValidUtf8(std::string text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t more = lead < 0x80                   ? 0
                             : lead >= 0xc2 && lead < 0xe0 ? 1
                             : lead >= 0xe0 && lead < 0xf0 ? 2
                             : lead >= 0xf0 && lead < 0xf5 ? 3
                                                           : text.size();
    bool valid = i + more < text.size();
    for (std::size_t k = 1; valid && k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      // Longer than needed, surrogates, beyond the last code point.
      const bool out_of_range =
          k == 1 && ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
                     (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f));
      valid = (next & 0xc0) == 0x80 && !out_of_range;
    }
    if (!valid) text[i] = '?';
    i += valid ? more + 1 : 1;
  }
  return text;
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
    if (event.phase != "X") {
      ++trace_.counts.skipped[OtherPhase(event.phase)];
      return Unit{};
    }
    if (!event.start_ns || !event.duration_ns) {
      ++trace_.counts.skipped["without begin or duration"];
      return Unit{};
    }
    if (*event.start_ns < 0 || *event.duration_ns < 0) {
      return Error{.message = StrCat("event ", event.index, " (", event.name.substr(0, 60),
                                     ") has a negative time: it begins at ", *event.start_ns,
                                     " ns and lasts ", *event.duration_ns, " ns")};
    }
    if (*event.start_ns > kLatest_ns || *event.duration_ns > kLatest_ns - *event.start_ns) {
      return Error{.message = StrCat("event ", event.index, " (", event.name.substr(0, 60),
                                     ") ends later than 146 years from the clock's begin")};
    }
    Keep(event);
    return Unit{};
  }

  KinetoTrace Finish() {
    std::stable_sort(trace_.steps.begin(), trace_.steps.end(),
                     [](const StepMark& a, const StepMark& b) { return a.start_ns < b.start_ns; });
    // A launch by its correlation; if several calls share one, the first.
    std::vector<std::pair<std::int64_t, std::uint32_t>> by_correlation;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      by_correlation.emplace_back(trace_.calls[i].correlation, i);
    }
    std::sort(by_correlation.begin(), by_correlation.end());
    for (DeviceEvent& event : trace_.device) {
      if (event.correlation < 0) continue;
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
    if (phase == "i" || phase == "I") return "instants";
    if (phase == "C") return "counters";
    if (phase.empty()) return "without phase";
    return StrCat("of phase ", phase.substr(0, 8));
  }

  HostSpan Span(const ChromeEvent& event) {
    thread_key_.assign(event.process).append("/").append(event.thread);
    return {*event.start_ns, *event.start_ns + *event.duration_ns, thread_(thread_key_),
            name_(event.name)};
  }

  std::uint32_t Stream(const ChromeEvent& event, const std::string* stream) {
    if (stream == nullptr) stream = &event.thread;
    const std::string* device = event.Find("device");
    if (device == nullptr) device = &event.process;
    stream_key_.assign(*device).append("/").append(*stream);
    const auto [at, is_new] =
        streams_.try_emplace(stream_key_, static_cast<std::uint32_t>(trace_.streams.size()));
    if (is_new) trace_.streams.push_back({Integer(device).value_or(0), *stream});
    return at->second;
  }

  // A stream that another event names, on the same device; "-1" is none.
  std::uint32_t NamedStream(const ChromeEvent& event, std::string_view argument) {
    const std::string* stream = event.Find(argument);
    if (stream == nullptr || stream->starts_with('-') || Integer(stream) == 0xffffffffLL) {
      return kNoIndex;
    }
    return Stream(event, stream);
  }

  void KeepDevice(const ChromeEvent& event, DeviceKind kind) {
    DeviceEvent device;
    device.kind = kind;
    device.start_ns = *event.start_ns;
    device.end_ns = *event.start_ns + *event.duration_ns;
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
    }
    trace_.device.push_back(device);
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

  void KeepAnnotation(const ChromeEvent& event) {
    constexpr std::string_view kStep = "ProfilerStep#";
    if (event.name.starts_with(kStep)) {
      const std::string number = event.name.substr(kStep.size());
      trace_.steps.push_back(
          {Integer(&number).value_or(0), *event.start_ns, *event.start_ns + *event.duration_ns});
      return;
    }
    trace_.annotations.push_back(Span(event));
  }

  void Keep(const ChromeEvent& event) {
    const std::string category = Lower(event.category);
    switch (CategoryOf(category)) {
      case Category::kKernel:
        KeepDevice(event, DeviceKind::kKernel);
        break;
      case Category::kMemcpy:
        KeepDevice(event, DeviceKind::kMemcpy);
        break;
      case Category::kMemset:
        KeepDevice(event, DeviceKind::kMemset);
        break;
      case Category::kRuntime:
        trace_.calls.push_back({Span(event), Integer(event.Find("correlation")).value_or(-1)});
        break;
      case Category::kSync:
        KeepSync(event);
        break;
      case Category::kHostOp:
        // Versions before 1.9 mark steps as operators.
        if (event.name.starts_with("ProfilerStep#")) {
          KeepAnnotation(event);
        } else {
          trace_.host_ops.push_back(Span(event));
        }
        break;
      case Category::kAnnotation:
        KeepAnnotation(event);
        break;
      case Category::kDeviceAnnotation:
        ++trace_.counts.skipped["gpu_user_annotation (marks around kernels)"];
        return;
      case Category::kPython:
        ++trace_.counts.skipped["python_function (call stacks)"];
        return;
      case Category::kOverhead:
        ++trace_.counts.skipped["overhead (of the profiler)"];
        return;
      case Category::kProfiler:
        ++trace_.counts.skipped["Trace (span of the profiler)"];
        return;
      case Category::kUnknown:
        trace_.unknown.push_back(Span(event));
        ++trace_.counts.unknown[event.category.empty() ? "(none)" : event.category];
        return;
    }
    ++trace_.counts.read[category];
  }

  KinetoTrace trace_;
  Interner name_, thread_;
  std::unordered_map<std::string, std::uint32_t> streams_;
  std::string thread_key_, stream_key_;
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
    return Error{.message = StrCat(name, ": holds no event with a begin and a duration (of ",
                                   trace.counts.events, " events)")};
  }
  return trace;
}

Result<KinetoTrace> ReadKineto(const std::string& path) {
  Result<ByteSource> source = ByteSource::Open(path);
  if (!source.ok()) return source.error();
  return ReadKineto(source.value(), path);
}

}  // namespace twinstep
