#include "traces/kineto/kineto_import.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/add_names.h"
#include "traces/imported_names.h"
#include "traces/kineto/kineto_phase.h"
#include "traces/kineto/kineto_ranks.h"
#include "traces/operator_class.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

// The index of a name in one of a trace's tables.
class Table {
 public:
  explicit Table(google::protobuf::RepeatedPtrField<std::string>* names) : names_(names) {
    for (int i = 0; i < names->size(); ++i) index_[names->Get(i)] = static_cast<std::uint32_t>(i);
  }
  std::uint32_t operator()(const std::string& name) {
    const auto [at, is_new] = index_.try_emplace(name, static_cast<std::uint32_t>(names_->size()));
    if (is_new) names_->Add(std::string(name));
    return at->second;
  }

 private:
  google::protobuf::RepeatedPtrField<std::string>* names_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

struct Row {
  std::uint32_t rank = 0, lane = 0, kind = 0, phase = 0, op = 0;
  std::int64_t start_ns = 0, end_ns = 0, bytes = 0;
};

std::string KindName(OperatorClass operator_class, std::string_view collective) {
  if (collective == "send") return Name(TaskKind::kSend);
  if (collective == "recv") return Name(TaskKind::kRecv);
  if (IsCommunication(operator_class)) return Name(TaskKind::kCollective);
  switch (operator_class) {
    case OperatorClass::kH2D:
      return Name(TaskKind::kH2D);
    case OperatorClass::kD2H:
      return Name(TaskKind::kD2H);
    case OperatorClass::kPeerCopy:
      return kPeerCopyKind;
    default:
      return Name(TaskKind::kCompute);
  }
}

// Outermost spans of each thread, by start.
std::vector<HostSpan> Outermost(std::vector<HostSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const HostSpan& a, const HostSpan& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return a.end_ns > b.end_ns;
  });
  std::vector<HostSpan> outermost;
  for (const HostSpan& span : spans) {
    if (!outermost.empty() && outermost.back().thread == span.thread &&
        span.start_ns < outermost.back().end_ns) {
      continue;
    }
    outermost.push_back(span);
  }
  return outermost;
}

bool IsProcessGroupName(std::string_view name) {
  for (const char* prefix : {"gloo:", "nccl:", "mpi:", "ucc:", "c10d::"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

class Importer {
 public:
  Importer(std::span<const KinetoTrace> files, const StepChoice& choice)
      : files_(files),
        choice_(choice),
        lane_(trace_.mutable_lanes()),
        kind_(trace_.mutable_kinds()),
        operator_(trace_.mutable_operators()) {
    trace_.set_origin(Trace::IMPORTED);
    AddNames<TaskKind>(kTaskKindCount, trace_.mutable_kinds());
    kind_ = Table(trace_.mutable_kinds());
    AddImportedPhases(trace_.mutable_phases());
  }

  Result<Trace> Run() {
    Result<std::vector<KinetoRank>> ranks = RanksOf(files_);
    if (!ranks.ok()) return ranks.error();
    ranks_ = std::move(ranks).value();
    Result<AlignedWindows> aligned = ChooseWindows(files_, choice_);
    if (!aligned.ok()) return aligned.error();
    aligned_ = std::move(aligned).value();
    for (const KinetoRank& of : ranks_) {
      Trace::Rank* rank = trace_.add_ranks();
      rank->set_global_rank(of.number);
      rank->set_class_size(1);
    }
    for (std::size_t i = 0; i < files_.size(); ++i) AddFile(i);
    return Finish();
  }

 private:
  // Of a file's device; of a file without one, its only rank.
  std::uint32_t RankOf(std::size_t file, std::optional<std::int64_t> device) const {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const KinetoRank& x) {
      return x.file == file && x.device == device;
    });
    return static_cast<std::uint32_t>(rank - ranks_.begin());
  }
  std::uint32_t FirstRankOf(std::size_t file) const {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                   [file](const KinetoRank& x) { return x.file == file; });
    return static_cast<std::uint32_t>(rank - ranks_.begin());
  }

  void AddFile(std::size_t i) {
    const KinetoTrace& file = files_[i];
    const std::size_t rows_before = rows_.size();
    const std::vector<std::optional<Phase>> phases = PhasesOfDeviceEvents(file);
    std::vector<std::uint32_t> rank_of_stream;
    for (const KinetoStream& stream : file.streams) {
      rank_of_stream.push_back(RankOf(i, stream.device));
    }
    // What a name means is found out once for each.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>>
        known;
    for (const std::uint32_t index : aligned_.windows[i].device) {
      const DeviceEvent& event = file.device[index];
      const auto [at, is_new] = known.try_emplace({event.name, event.collective});
      if (is_new) {
        const std::string name = OperatorName(file, event);
        const std::string_view collective =
            event.collective == kNoIndex ? std::string_view() : file.names[event.collective];
        at->second = {operator_(name), kind_(KindName(ClassOfOperator(name), collective))};
      }
      const KinetoStream& stream = file.streams[event.stream];
      Add({.rank = rank_of_stream[event.stream],
           .lane = lane_("stream " + stream.name),
           .kind = at->second.second,
           .phase = ImportedPhaseIndex(phases[index]),
           .op = at->second.first,
           .start_ns = event.start_ns,
           .end_ns = event.end_ns,
           .bytes = event.bytes},
          i);
    }
    const bool on_host = file.device.empty();
    if (on_host) AddHost(i);
    const bool only_unknown = on_host && file.host_ops.empty();
    AddSpans(i, only_unknown ? Outermost(file.unknown) : file.unknown,
             only_unknown ? Name(TaskKind::kHost) : kUnknownKind);
    // A program's own marks are all that there is.
    const bool only_marks = only_unknown && file.unknown.empty() && rows_.size() == rows_before;
    if (only_marks) AddSpans(i, Outermost(file.annotations), Name(TaskKind::kHost));
  }

  void AddHost(std::size_t i) {
    const KinetoTrace& file = files_[i];
    std::vector<HostSpan> groups;
    for (const HostSpan& span : file.annotations) {
      if (IsProcessGroupName(file.names[span.name])) groups.push_back(span);
    }
    AddSpans(i, groups, Name(TaskKind::kCollective));
    // An operator of c10d is the collective, unless there are marks of what its process group does:
    // then it has only asked for it.
    std::vector<HostSpan> operators, collectives;
    for (const HostSpan& span : Outermost(file.host_ops)) {
      const std::string& name = file.names[span.name];
      const bool communicates = IsCommunication(ClassOfOperator(name));
      if (!communicates || !name.starts_with("c10d::")) {
        operators.push_back(span);
      } else if (groups.empty()) {
        collectives.push_back(span);
      }
    }
    AddSpans(i, collectives, Name(TaskKind::kCollective));
    AddSpans(i, operators, Name(TaskKind::kHost));
  }

  void AddSpans(std::size_t i, const std::vector<HostSpan>& spans, const std::string& kind) {
    const KinetoTrace& file = files_[i];
    const std::uint32_t rank = FirstRankOf(i);
    for (const HostSpan& span : spans) {
      // What only touches an end of the window is no part of it, unless it takes no time.
      const KinetoWindow& window = aligned_.windows[i];
      const bool is_point = span.end_ns == span.start_ns;
      if (span.end_ns + is_point <= window.start_ns || span.start_ns >= window.end_ns + is_point)
        continue;
      Add({.rank = rank,
           .lane = lane_("thread " + file.threads[span.thread]),
           .kind = kind_(kind),
           .phase = ImportedPhaseIndex(PhaseOfSpan(file.names[span.name])),
           .op = operator_(file.names[span.name]),
           .start_ns = span.start_ns,
           .end_ns = span.end_ns},
          i);
    }
  }

  // On the clock of all, cut at the ends of the iteration.
  void Add(Row row, std::size_t file) {
    const std::int64_t end_ns = aligned_.windows[file].end_ns;
    row.start_ns =
        std::clamp(row.start_ns, aligned_.windows[file].start_ns, end_ns) - aligned_.zero_ns[file];
    row.end_ns =
        std::clamp(row.end_ns, aligned_.windows[file].start_ns, end_ns) - aligned_.zero_ns[file];
    rows_.push_back(row);
  }

  Result<Trace> Finish() {
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.start_ns < b.start_ns;
    });
    std::uint32_t task = 0;
    for (const Row& row : rows_) {
      trace_.add_task(task++);
      trace_.add_rank(row.rank);
      trace_.add_lane(row.lane);
      trace_.add_kind(row.kind);
      trace_.add_phase(row.phase);
      trace_.add_op(row.op);
      trace_.add_ready_ps(row.start_ns * kPicosecondsPerNanosecond);
      trace_.add_start_ps(row.start_ns * kPicosecondsPerNanosecond);
      trace_.add_end_ps(row.end_ns * kPicosecondsPerNanosecond);
      trace_.add_micro_batch(kNoTag);
      trace_.add_stage(kNoTag);
      trace_.add_block(kNoTag);
      trace_.add_chunk(kNoTag);
      trace_.add_bytes(row.bytes);
    }
    trace_.set_iteration_ps(aligned_.iteration_ns * kPicosecondsPerNanosecond);
    trace_.set_name(NameOf(files_, aligned_));
    if (rows_.empty()) {
      return Error{.message = StrCat(files_[0].path, ": nothing runs in ", trace_.name())};
    }
    return std::move(trace_);
  }

  std::span<const KinetoTrace> files_;
  StepChoice choice_;
  Trace trace_;
  Table lane_, kind_, operator_;
  AlignedWindows aligned_;
  std::vector<KinetoRank> ranks_;
  std::vector<Row> rows_;
};

}  // namespace

std::string OperatorName(const KinetoTrace& trace, const DeviceEvent& event) {
  const std::string& name = trace.names[event.name];
  if (event.collective == kNoIndex) return name;
  // NCCL's generic kernels say only beside their name what they do, and its messages may be those
  // of an all-to-all.
  const OperatorClass by_name = ClassOfOperator(name);
  if (by_name != OperatorClass::kOtherCollective && by_name != OperatorClass::kSendRecv) {
    return name;
  }
  return StrCat(name, " (nccl ", trace.names[event.collective], ")");
}

Result<Trace> ImportKineto(std::span<const KinetoTrace> files, const StepChoice& choice) {
  return Importer(files, choice).Run();
}

}  // namespace twinstep
