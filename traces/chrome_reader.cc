#include "traces/chrome_reader.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/check_trace.h"
#include "traces/chrome_json.h"
#include "traces/kineto/chrome_events.h"

namespace twinstep {
namespace {

constexpr std::string_view kOwnKey = "twinstep", kPrefix = "otherData.twinstep.";

template <typename Integer>
std::optional<Integer> Parse(std::string_view text) {
  Integer value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

using NameTable = google::protobuf::RepeatedPtrField<std::string>;

// Index by name.
std::unordered_map<std::string, std::uint32_t> IndexOf(const NameTable& names) {
  std::unordered_map<std::string, std::uint32_t> index;
  for (int i = 0; i < names.size(); ++i) {
    index.try_emplace(names.Get(i), static_cast<std::uint32_t>(i));
  }
  return index;
}

class Collector : public ChromeEventSink {
 public:
  Status OnHeader(std::string_view path, std::string_view value) override {
    if (path == "otherData.name") trace_.set_name(std::string(value));
    if (!path.starts_with(kPrefix)) return Unit{};
    path.remove_prefix(kPrefix.size());
    if (path == "version") {
      has_version_ = Parse<int>(value) == kChromeJsonVersion;
      if (has_version_) return Unit{};
      return Error{
          .message = StrCat("is of version ", value, ", this program reads ", kChromeJsonVersion)};
    }
    if (path == "origin") {
      trace_.set_origin(value == "simulated"  ? Trace::SIMULATED
                        : value == "executed" ? Trace::EXECUTED
                        : value == "imported" ? Trace::IMPORTED
                                              : Trace::ORIGIN_UNSPECIFIED);
      return Unit{};
    }
    if (path == "iteration_ps") {
      const auto time = Parse<std::int64_t>(value);
      if (!time) return Error{.message = StrCat("iteration_ps is ", value)};
      trace_.set_iteration_ps(*time);
      return Unit{};
    }
    for (const auto& [name, flag] :
         {std::pair{"has_shape", &has_shape_}, std::pair{"has_dependency", &has_dependency_},
          std::pair{"has_rendezvous", &has_rendezvous_}}) {
      if (path == name) *flag = value == "true";
    }
    const std::string_view table = path.substr(0, path.find('.'));
    for (const auto& [name, names] :
         {std::pair{"lanes", trace_.mutable_lanes()}, std::pair{"kinds", trace_.mutable_kinds()},
          std::pair{"phases", trace_.mutable_phases()},
          std::pair{"operators", trace_.mutable_operators()},
          std::pair{"shapes", trace_.mutable_shapes()}}) {
      if (table == name) names->Add(std::string(value));
    }
    if (table == "ranks") return OnRank(path.substr(path.rfind('.') + 1), value);
    return Unit{};
  }

  Status OnEvent(const ChromeEvent& event) override {
    if (!has_version_) {
      return Error{.message = StrCat("otherData.", kOwnKey,
                                     ", which says what the events mean, does not stand in front "
                                     "of them: the file's keys were put into another order")};
    }
    if (!indexed_) Index();
    if (event.phase == "C") return OnCounter(event);
    if (event.phase != "X") return Unit{};
    const auto bad = [&event](const char* what) {
      return Error{.message = StrCat("event ", event.index, " (", event.name.substr(0, 60),
                                     ") has no or an unknown ", what)};
    };
    const std::string* kind = event.Find("kind");
    const auto rank = rank_of_.find(event.process);
    const auto lane = Parse<std::uint32_t>(event.thread);
    const auto task = Argument<std::uint32_t>(event, "task");
    if (rank == rank_of_.end()) return bad("process");
    if (!lane || *lane == 0) return bad("thread");
    if (!task) return bad("task");
    if (event.exact_ps.size() != 3) return bad("time in ps");
    if (kind == nullptr || !kinds_.contains(*kind)) return bad("kind");
    if (!phases_.contains(event.category)) return bad("phase");
    if (!operators_.contains(event.name)) return bad("operator");
    trace_.add_task(*task);
    trace_.add_rank(rank->second);
    trace_.add_lane(*lane - 1);
    trace_.add_kind(kinds_.at(*kind));
    trace_.add_phase(phases_.at(event.category));
    trace_.add_op(operators_.at(event.name));
    trace_.add_ready_ps(event.exact_ps[0]);
    trace_.add_start_ps(event.exact_ps[1]);
    trace_.add_end_ps(event.exact_ps[2]);
    trace_.add_micro_batch(Argument<std::uint32_t>(event, "micro_batch").value_or(kNoTag));
    trace_.add_stage(Argument<std::uint32_t>(event, "stage").value_or(kNoTag));
    trace_.add_block(Argument<std::uint32_t>(event, "block").value_or(kNoTag));
    trace_.add_chunk(Argument<std::uint32_t>(event, "chunk").value_or(kNoTag));
    trace_.add_bytes(Argument<std::int64_t>(event, "bytes").value_or(0));
    if (has_rendezvous_) {
      trace_.add_rendezvous(Argument<std::uint32_t>(event, "rendezvous").value_or(0));
    }
    if (has_dependency_) {
      trace_.add_dependency_count(static_cast<std::uint32_t>(event.dependencies.size()));
      for (const std::int64_t distance : event.dependencies) {
        if (distance < INT32_MIN || distance > INT32_MAX) return bad("dependency");
        trace_.add_dependency(static_cast<std::int32_t>(distance));
      }
    }
    if (has_shape_) {
      const std::string* shape = event.Find("shape");
      const auto at = shapes_.find(shape == nullptr ? std::string() : *shape);
      if (at == shapes_.end()) return bad("shape");
      trace_.add_shape(at->second);
    }
    return Unit{};
  }

  Trace Take() { return std::move(trace_); }

 private:
  template <typename Integer>
  static std::optional<Integer> Argument(const ChromeEvent& event, const char* name) {
    const std::string* text = event.Find(name);
    return text == nullptr ? std::nullopt : Parse<Integer>(*text);
  }

  // Six numbers a rank, in a row.
  Status OnRank(std::string_view field, std::string_view value) {
    const auto number = Parse<std::uint32_t>(value);
    const auto index = Parse<int>(field);
    if (!number || !index) return Error{.message = StrCat("a rank holds ", value)};
    if (*index == 0) trace_.add_ranks();
    if (trace_.ranks_size() == 0) return Error{.message = "a rank is incomplete"};
    Trace::Rank* rank = trace_.mutable_ranks(trace_.ranks_size() - 1);
    switch (*index) {
      case 0:
        rank->set_global_rank(*number);
        break;
      case 1:
        rank->set_tp(*number);
        break;
      case 2:
        rank->set_cp(*number);
        break;
      case 3:
        rank->set_dp(*number);
        break;
      case 4:
        rank->set_pp(*number);
        break;
      case 5:
        rank->set_class_size(*number);
        break;
      default:
        return Error{.message = "a rank holds more than six numbers"};
    }
    return Unit{};
  }

  void Index() {
    indexed_ = true;
    kinds_ = IndexOf(trace_.kinds());
    phases_ = IndexOf(trace_.phases());
    operators_ = IndexOf(trace_.operators());
    shapes_ = IndexOf(trace_.shapes());
    for (int i = 0; i < trace_.ranks_size(); ++i) {
      rank_of_.try_emplace(std::to_string(std::uint64_t{trace_.ranks(i).global_rank()} + 1),
                           static_cast<std::uint32_t>(i));
    }
  }

  // Points of one curve follow each other.
  Status OnCounter(const ChromeEvent& event) {
    const auto rank = rank_of_.find(event.process);
    const auto bytes = Argument<std::int64_t>(event, "bytes");
    if (rank == rank_of_.end() || !bytes || event.exact_ps.size() != 1) {
      return Error{.message = StrCat("counter ", event.index, " is incomplete")};
    }
    std::optional<std::uint32_t> pool;
    for (int i = 0; i < kPoolCount; ++i) {
      if (event.name == StrCat(Name(static_cast<Pool>(i)), " memory")) {
        pool = static_cast<std::uint32_t>(i);
      }
    }
    if (!pool) return Error{.message = StrCat("counter ", event.index, " is of no known pool")};
    const int last = trace_.memory_size() - 1;
    Trace::MemoryCurve* curve = last >= 0 ? trace_.mutable_memory(last) : nullptr;
    if (curve == nullptr || curve->rank() != rank->second || curve->pool() != *pool) {
      curve = trace_.add_memory();
      curve->set_rank(rank->second);
      curve->set_pool(*pool);
    }
    curve->add_time_ps(event.exact_ps[0]);
    curve->add_live_bytes(*bytes);
    return Unit{};
  }

  Trace trace_;
  bool has_version_ = false, indexed_ = false, has_shape_ = false, has_dependency_ = false,
       has_rendezvous_ = false;
  std::unordered_map<std::string, std::uint32_t> kinds_, phases_, operators_, shapes_, rank_of_;
};

// Reads until it is clear whose file it is, by what it says and not by how that is written: other
// tools break lines and sort keys.
class Recognizer : public ChromeEventSink {
 public:
  Status OnHeader(std::string_view path, std::string_view) override {
    is_own_ = path.starts_with(kPrefix);
    return is_own_ ? Enough() : Unit{};
  }
  Status OnEvent(const ChromeEvent& event) override {
    if (event.phase == "M") return Unit{};
    is_own_ = !event.exact_ps.empty();
    return Enough();
  }
  bool is_own() const { return is_own_; }

 private:
  static Status Enough() { return Error{.message = "enough is read"}; }

  bool is_own_ = false;
};

}  // namespace

Result<bool> IsOwnChromeJson(const std::string& path) {
  Result<ByteSource> source = ByteSource::Open(path);
  if (!source.ok()) return source.error();
  Recognizer recognizer;
  // What is wrong with the file is said when it is read.
  (void)ReadChromeEvents(source.value(), path, &recognizer).ok();
  return recognizer.is_own();
}

Result<Trace> ReadChromeTrace(ByteSource& source, const std::string& name) {
  Collector collector;
  const Status read = ReadChromeEvents(source, name, &collector);
  if (!read.ok()) return read.error();
  Trace trace = collector.Take();
  if (trace.task_size() == 0) return Error{.message = StrCat(name, ": holds no task")};
  if (const std::string bad = TraceProblem(trace); !bad.empty()) {
    return Error{.message = StrCat(name, ": ", bad)};
  }
  return trace;
}

Result<Trace> ReadChromeTrace(const std::string& path) {
  Result<ByteSource> source = ByteSource::Open(path);
  if (!source.ok()) return source.error();
  return ReadChromeTrace(source.value(), path);
}

}  // namespace twinstep
