#include "traces/chrome_json.h"

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/interval_set.h"
#include "traces/trace_arrows.h"
#include "traces/trace_title.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

std::int64_t Nanoseconds(std::int64_t ps) { return ps / kPicosecondsPerNanosecond; }

// Bytes that are no UTF-8 are replaced: JSON cannot hold them.
std::string Quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Writes the events of one file, with the commas between them.
class Writer {
 public:
  Writer(const Trace& trace, std::ostream& out) : trace_(trace), out_(out) {
    for (const std::string& name : trace.operators()) operators_.push_back(Quoted(name));
    for (const std::string& name : trace.phases()) phases_.push_back(Quoted(name));
    for (const std::string& name : trace.kinds()) {
      computes_.push_back(name == Name(TaskKind::kCompute));
      kinds_.push_back(Quoted(name));
    }
    std::vector<std::vector<Interval>> computing(static_cast<std::size_t>(trace.ranks_size()));
    for (int i = 0; i < trace.task_size(); ++i) {
      if (!computes_[trace.kind(i)]) continue;
      computing[trace.rank(i)].push_back({trace.start_ps(i), trace.end_ps(i)});
    }
    for (std::vector<Interval>& rank : computing) computing_.emplace_back(std::move(rank));
  }

  // What a reader of ours needs (traces/chrome_reader.h) stands in front of the events.
  void Header() {
    out_ << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"twinstep\":{\"version\":"
         << kChromeJsonVersion << ",\"origin\":\"" << OriginName(trace_)
         << "\",\"iteration_ps\":" << trace_.iteration_ps();
    Names("lanes", trace_.lanes());
    Names("kinds", trace_.kinds());
    Names("phases", trace_.phases());
    Names("operators", trace_.operators());
    Names("shapes", trace_.shapes());
    Flag("has_shape", !trace_.shape().empty());
    Flag("has_dependency", !trace_.dependency_count().empty());
    Flag("has_rendezvous", !trace_.rendezvous().empty());
    out_ << ",\"ranks\":[";
    for (int i = 0; i < trace_.ranks_size(); ++i) {
      const Trace::Rank& rank = trace_.ranks(i);
      out_ << (i == 0 ? "" : ",") << "[" << rank.global_rank() << "," << rank.tp() << ","
           << rank.cp() << "," << rank.dp() << "," << rank.pp() << "," << rank.class_size() << "]";
    }
    out_ << "]},\"name\":" << Quoted(trace_.name())
         << ",\"iteration_s\":" << nlohmann::json(static_cast<double>(trace_.iteration_ps()) / 1e12)
         << "},\"traceEvents\":[";
  }
  void Footer() { out_ << "\n]}\n"; }

  void RankNames() {
    for (const Trace::Rank& rank : trace_.ranks()) {
      std::string name = "rank " + std::to_string(rank.global_rank()) + " (pp " +
                         std::to_string(rank.pp()) + ", dp " + std::to_string(rank.dp()) + ", cp " +
                         std::to_string(rank.cp()) + ", tp " + std::to_string(rank.tp()) + ")";
      if (rank.class_size() > 1) name += ", stands for " + std::to_string(rank.class_size());
      const std::string pid = std::to_string(rank.global_rank() + 1);
      Meta("process_name", pid, "0", "\"name\":" + Quoted(name));
      Meta("process_sort_index", pid, "0", "\"sort_index\":" + pid);
    }
  }

  // Names the lanes that a rank uses, in the order of their ids.
  void LaneNames() {
    const auto lane_count = static_cast<std::size_t>(trace_.lanes_size());
    std::vector<bool> used(static_cast<std::size_t>(trace_.ranks_size()) * lane_count, false);
    for (int i = 0; i < trace_.task_size(); ++i) {
      used[trace_.rank(i) * lane_count + trace_.lane(i)] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const std::size_t lane = i % lane_count;
      const std::string pid = Pid(static_cast<std::uint32_t>(i / lane_count));
      const std::string tid = std::to_string(lane + 1);
      Meta("thread_name", pid, tid, "\"name\":" + Quoted(trace_.lanes(static_cast<int>(lane))));
      Meta("thread_sort_index", pid, tid, "\"sort_index\":" + tid);
    }
  }

  void Slice(int i) {
    const std::int64_t start = Nanoseconds(trace_.start_ps(i));
    Begin();
    out_ << "{\"ph\":\"X\",\"name\":" << operators_[trace_.op(i)]
         << ",\"cat\":" << phases_[trace_.phase(i)] << ",\"pid\":" << Pid(trace_.rank(i))
         << ",\"tid\":" << trace_.lane(i) + 1 << ",\"ts\":";
    Microseconds(start);
    out_ << ",\"dur\":";
    Microseconds(Nanoseconds(trace_.end_ps(i)) - start);
    // Viewers pass over what they do not know; our reader takes the exact times.
    out_ << ",\"ps\":[" << trace_.ready_ps(i) << "," << trace_.start_ps(i) << ","
         << trace_.end_ps(i) << "]";
    Dependencies(i);
    out_ << ",\"args\":{\"task\":" << trace_.task(i) << ",\"kind\":" << kinds_[trace_.kind(i)];
    Tag("micro_batch", trace_.micro_batch(i));
    Tag("stage", trace_.stage(i));
    Tag("block", trace_.block(i));
    Tag("chunk", trace_.chunk(i));
    if (trace_.bytes(i) != 0) out_ << ",\"bytes\":" << trace_.bytes(i);
    if (!trace_.shape().empty()) {
      const std::string& shape = trace_.shapes(static_cast<int>(trace_.shape(i)));
      if (!shape.empty()) out_ << ",\"shape\":" << Quoted(shape);
    }
    if (!trace_.rendezvous().empty() && trace_.rendezvous(i) != 0) {
      out_ << ",\"rendezvous\":" << trace_.rendezvous(i);
    }
    if (!computes_[trace_.kind(i)]) {
      const Interval when{trace_.start_ps(i), trace_.end_ps(i)};
      out_ << ",\"exposed_us\":";
      Microseconds(Nanoseconds(when.end - when.begin - computing_[trace_.rank(i)].Overlap(when)));
    }
    const std::int64_t waited = trace_.start_ps(i) - trace_.ready_ps(i);
    if (waited > 0) {
      out_ << ",\"waited_us\":";
      Microseconds(Nanoseconds(waited));
    }
    out_ << "}}";
  }

  void Counters() {
    for (const Trace::MemoryCurve& curve : trace_.memory()) {
      const std::string name =
          Quoted(std::string(Name(static_cast<Pool>(curve.pool()))) + " memory");
      for (int i = 0; i < curve.time_ps_size(); ++i) {
        Begin();
        out_ << "{\"ph\":\"C\",\"name\":" << name << ",\"pid\":" << Pid(curve.rank()) << ",\"ts\":";
        Microseconds(Nanoseconds(curve.time_ps(i)));
        out_ << ",\"ps\":[" << curve.time_ps(i) << "],\"args\":{\"bytes\":" << curve.live_bytes(i)
             << "}}";
      }
    }
  }

  // Viewers bind an arrow's end to the slice that encloses its time: both ends stand at the start
  // of their slice.
  void Arrow(int from, int to) {
    ++arrows_;
    for (const auto& [phase, event] : {std::pair{"s", from}, std::pair{"f", to}}) {
      Begin();
      out_ << "{\"ph\":\"" << phase << "\",\"bp\":\"e\",\"id\":" << arrows_
           << ",\"name\":\"dependency\",\"cat\":\"dependency\",\"pid\":" << Pid(trace_.rank(event))
           << ",\"tid\":" << trace_.lane(event) + 1 << ",\"ts\":";
      Microseconds(Nanoseconds(trace_.start_ps(event)));
      out_ << "}";
    }
  }

 private:
  using NameTable = google::protobuf::RepeatedPtrField<std::string>;

  void Names(const char* title, const NameTable& names) {
    out_ << ",\"" << title << "\":[";
    for (int i = 0; i < names.size(); ++i) out_ << (i == 0 ? "" : ",") << Quoted(names.Get(i));
    out_ << "]";
  }

  void Flag(const char* title, bool value) {
    out_ << ",\"" << title << "\":" << (value ? "true" : "false");
  }

  // Of the next event: they are called for in turn.
  void Dependencies(int event) {
    if (trace_.dependency_count().empty() || trace_.dependency_count(event) == 0) return;
    out_ << ",\"deps\":[";
    for (std::uint32_t k = 0; k < trace_.dependency_count(event); ++k) {
      out_ << (k == 0 ? "" : ",") << trace_.dependency(next_dependency_++);
    }
    out_ << "]";
  }

  void Begin() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
  }

  // Perfetto takes process 0 and thread 0 for the idle ones: ids start at 1.
  std::string Pid(std::uint32_t rank) const {
    return std::to_string(trace_.ranks(static_cast<int>(rank)).global_rank() + 1);
  }

  void Meta(std::string_view name, const std::string& pid, const std::string& tid,
            const std::string& argument) {
    Begin();
    out_ << "{\"ph\":\"M\",\"name\":\"" << name << "\",\"pid\":" << pid << ",\"tid\":" << tid
         << ",\"args\":{" << argument << "}}";
  }

  void Tag(std::string_view name, std::uint32_t value) {
    if (value != kNoTag) out_ << ",\"" << name << "\":" << value;
  }

  void Microseconds(std::int64_t nanoseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(nanoseconds / 1000),
                  static_cast<long long>(nanoseconds % 1000));
    out_ << text;
  }

  const Trace& trace_;
  std::ostream& out_;
  std::vector<std::string> operators_, phases_, kinds_;  // As JSON strings.
  std::vector<bool> computes_;                           // By kind.
  std::vector<IntervalSet> computing_;                   // By rank.
  bool first_ = true;
  int next_dependency_ = 0;
  std::int64_t arrows_ = 0;
};

}  // namespace

void WriteChromeJson(const Trace& trace, const ChromeJsonOptions& options, std::ostream& out) {
  Writer writer(trace, out);
  writer.Header();
  writer.RankNames();
  writer.LaneNames();
  for (int i = 0; i < trace.task_size(); ++i) writer.Slice(i);
  writer.Counters();
  if (options.flows != nullptr) {
    for (const TraceArrow& arrow : ArrowsOf(trace, *options.flows)) {
      writer.Arrow(arrow.from, arrow.to);
    }
  }
  writer.Footer();
}

}  // namespace twinstep
