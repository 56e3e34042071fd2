#include "traces/perfetto_writer.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/perfetto.pb.h"
#include "traces/trace_arrows.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kStateCleared = 1, kNeedsState = 2;

// Names of a slice's arguments, by interned id from 1.
constexpr std::array<const char*, 6> kArguments = {"task",  "micro_batch", "stage",
                                                   "block", "chunk",       "bytes"};

class Writer {
 public:
  Writer(const Trace& trace, std::ostream& out) : trace_(trace), out_(out) {}

  void Names() {
    perfetto::TracePacket packet;
    packet.set_sequence_flags(kStateCleared);
    perfetto::InternedData* names = packet.mutable_interned_data();
    const auto add = [](const std::string& name, auto* list) {
      perfetto::InternedName* entry = list->Add();
      entry->set_iid(static_cast<std::uint64_t>(list->size()));
      entry->set_name(name);
    };
    for (const std::string& phase : trace_.phases()) add(phase, names->mutable_event_categories());
    for (const std::string& op : trace_.operators()) add(op, names->mutable_event_names());
    for (const char* name : kArguments) add(name, names->mutable_debug_annotation_names());
    Write(&packet);
  }

  void Tracks() {
    for (int rank = 0; rank < trace_.ranks_size(); ++rank) {
      const Trace::Rank& info = trace_.ranks(rank);
      perfetto::TracePacket packet;
      perfetto::TrackDescriptor* track = packet.mutable_track_descriptor();
      track->set_uuid(ProcessTrack(static_cast<std::uint32_t>(rank)));
      track->mutable_process()->set_pid(rank + 1);
      track->mutable_process()->set_process_name(
          StrCat("rank ", info.global_rank(), " (pp ", info.pp(), ", dp ", info.dp(), ", cp ",
                 info.cp(), ", tp ", info.tp(), ")",
                 info.class_size() > 1 ? StrCat(", stands for ", info.class_size()) : ""));
      track->set_child_ordering(perfetto::TrackDescriptor::EXPLICIT);
      Write(&packet);
    }
    const auto lanes = static_cast<std::size_t>(trace_.lanes_size());
    std::vector<bool> used(static_cast<std::size_t>(trace_.ranks_size()) * lanes, false);
    for (int i = 0; i < trace_.task_size(); ++i) {
      used[trace_.rank(i) * lanes + trace_.lane(i)] = true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const auto rank = static_cast<std::uint32_t>(i / lanes);
      const auto lane = static_cast<std::uint32_t>(i % lanes);
      Child(rank, LaneTrack(rank, lane), trace_.lanes(static_cast<int>(lane)),
            static_cast<int>(lane), nullptr);
    }
    perfetto::CounterDescriptor bytes;
    bytes.set_unit(perfetto::CounterDescriptor::UNIT_SIZE_BYTES);
    for (const Trace::MemoryCurve& curve : trace_.memory()) {
      Child(curve.rank(), CounterTrack(curve),
            StrCat(Name(static_cast<Pool>(curve.pool())), " memory"),
            trace_.lanes_size() + static_cast<int>(curve.pool()), &bytes);
    }
  }

  // Events are sorted by rank and start, and a lane runs one task at a time: on each track an end
  // stands before the begin of the next slice at the same time.
  void Slices(const std::vector<TraceArrow>& arrows) {
    std::vector<std::vector<std::uint64_t>> leaves(static_cast<std::size_t>(trace_.task_size()));
    std::vector<std::vector<std::uint64_t>> enters(leaves.size());
    for (std::size_t i = 0; i < arrows.size(); ++i) {
      leaves[static_cast<std::size_t>(arrows[i].from)].push_back(i + 1);
      enters[static_cast<std::size_t>(arrows[i].to)].push_back(i + 1);
    }
    for (int i = 0; i < trace_.task_size(); ++i) {
      perfetto::TracePacket begin;
      perfetto::TrackEvent* event =
          Event(trace_.start_ps(i), perfetto::TrackEvent::TYPE_SLICE_BEGIN, &begin);
      event->set_track_uuid(LaneTrack(trace_.rank(i), trace_.lane(i)));
      event->add_category_iids(trace_.phase(i) + 1);
      event->set_name_iid(trace_.op(i) + 1);
      Argument(0, trace_.task(i), event);
      const std::uint32_t tags[] = {trace_.micro_batch(i), trace_.stage(i), trace_.block(i),
                                    trace_.chunk(i)};
      for (std::uint64_t tag = 0; tag < 4; ++tag) {
        if (tags[tag] != kNoTag) Argument(tag + 1, tags[tag], event);
      }
      if (trace_.bytes(i) != 0) Argument(5, static_cast<std::uint64_t>(trace_.bytes(i)), event);
      const auto index = static_cast<std::size_t>(i);
      for (const std::uint64_t flow : leaves[index]) event->add_flow_ids(flow);
      for (const std::uint64_t flow : enters[index]) event->add_terminating_flow_ids(flow);
      Write(&begin);
      perfetto::TracePacket end;
      Event(trace_.end_ps(i), perfetto::TrackEvent::TYPE_SLICE_END, &end)
          ->set_track_uuid(LaneTrack(trace_.rank(i), trace_.lane(i)));
      Write(&end);
    }
  }

  void Counters() {
    for (const Trace::MemoryCurve& curve : trace_.memory()) {
      for (int i = 0; i < curve.time_ps_size(); ++i) {
        perfetto::TracePacket packet;
        perfetto::TrackEvent* event =
            Event(curve.time_ps(i), perfetto::TrackEvent::TYPE_COUNTER, &packet);
        event->set_track_uuid(CounterTrack(curve));
        event->set_counter_value(curve.live_bytes(i));
        Write(&packet);
      }
    }
  }

 private:
  // Identifiers of tracks: unique in the file, and not 0.
  std::uint64_t ProcessTrack(std::uint32_t rank) const { return (std::uint64_t{rank} + 1) << 32; }
  std::uint64_t LaneTrack(std::uint32_t rank, std::uint32_t lane) const {
    return ProcessTrack(rank) + 1 + lane;
  }
  std::uint64_t CounterTrack(const Trace::MemoryCurve& curve) const {
    return LaneTrack(curve.rank(), static_cast<std::uint32_t>(trace_.lanes_size()) + curve.pool());
  }

  void Child(std::uint32_t rank, std::uint64_t uuid, const std::string& name, int order,
             const perfetto::CounterDescriptor* counter) {
    perfetto::TracePacket packet;
    perfetto::TrackDescriptor* track = packet.mutable_track_descriptor();
    track->set_uuid(uuid);
    track->set_parent_uuid(ProcessTrack(rank));
    track->set_name(name);
    track->set_sibling_order_rank(order);
    if (counter != nullptr) *track->mutable_counter() = *counter;
    Write(&packet);
  }

  perfetto::TrackEvent* Event(std::int64_t time_ps, perfetto::TrackEvent::Type type,
                              perfetto::TracePacket* packet) {
    packet->set_timestamp(static_cast<std::uint64_t>(time_ps / kPicosecondsPerNanosecond));
    packet->set_sequence_flags(kNeedsState);
    packet->mutable_track_event()->set_type(type);
    return packet->mutable_track_event();
  }

  static void Argument(std::uint64_t name, std::uint64_t value, perfetto::TrackEvent* event) {
    perfetto::DebugAnnotation* argument = event->add_debug_annotations();
    argument->set_name_iid(name + 1);
    argument->set_uint_value(value);
  }

  // A file is one message with all packets in it; in pieces it is the same bytes.
  void Write(perfetto::TracePacket* packet) {
    packet->set_trusted_packet_sequence_id(kSequence);
    perfetto::PerfettoTrace piece;
    *piece.add_packet() = std::move(*packet);
    piece.SerializeToOstream(&out_);
  }

  const Trace& trace_;
  std::ostream& out_;
};

}  // namespace

void WritePerfetto(const Trace& trace, const TaskGraph* flows, std::ostream& out) {
  Writer writer(trace, out);
  writer.Names();
  writer.Tracks();
  writer.Slices(flows == nullptr ? std::vector<TraceArrow>() : ArrowsOf(trace, *flows));
  writer.Counters();
}

}  // namespace twinstep
