#include "traces/perfetto_writer.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/traces/tiny_graph.h"
#include "traces/perfetto.pb.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

using perfetto::TrackEvent;

perfetto::PerfettoTrace Written(const Trace& trace, const TaskGraph* flows = nullptr) {
  std::ostringstream out;
  WritePerfetto(trace, flows, out);
  perfetto::PerfettoTrace parsed;
  EXPECT_TRUE(parsed.ParseFromString(out.str()));
  return parsed;
}

TEST(PerfettoWriterTest, SlicesHaveTracksNamesAndTimes) {
  const testing::TinyRun run = testing::TwoRankRun();
  const TraceMemoryCurve curve{1, Pool::kGpu, {0, 45'000}, {7, 2048}};
  const Trace trace = BuildTrace(run.graph, run.replay, "", {&curve, 1});
  std::map<std::uint64_t, std::string> tracks, names;
  std::map<std::uint64_t, std::uint64_t> open_since, parents;
  int slices = 0, counters = 0;
  std::uint64_t last_end = 0;
  const perfetto::PerfettoTrace written = Written(trace);
  for (const perfetto::TracePacket& packet : written.packet()) {
    EXPECT_EQ(packet.trusted_packet_sequence_id(), 1u);
    for (const auto& name : packet.interned_data().event_names()) names[name.iid()] = name.name();
    if (packet.has_track_descriptor()) {
      tracks[packet.track_descriptor().uuid()] = packet.track_descriptor().name();
      parents[packet.track_descriptor().uuid()] = packet.track_descriptor().parent_uuid();
    }
    if (!packet.has_track_event()) continue;
    const TrackEvent& event = packet.track_event();
    ASSERT_TRUE(tracks.contains(event.track_uuid()));
    ASSERT_TRUE(tracks.contains(parents[event.track_uuid()]));
    switch (event.type()) {
      case TrackEvent::TYPE_SLICE_BEGIN:
        EXPECT_TRUE(names.contains(event.name_iid()));
        EXPECT_FALSE(open_since.contains(event.track_uuid()));
        open_since[event.track_uuid()] = packet.timestamp();
        ++slices;
        break;
      case TrackEvent::TYPE_SLICE_END:
        ASSERT_TRUE(open_since.contains(event.track_uuid()));
        EXPECT_LE(open_since[event.track_uuid()], packet.timestamp());
        open_since.erase(event.track_uuid());
        last_end = std::max(last_end, packet.timestamp());
        break;
      default:
        EXPECT_EQ(tracks[event.track_uuid()], "gpu memory");
        ++counters;
    }
  }
  EXPECT_EQ(slices, 10);
  EXPECT_EQ(counters, 2);
  EXPECT_EQ(last_end, 60u);
  EXPECT_TRUE(open_since.empty());
}

TEST(PerfettoWriterTest, FlowsHaveTwoEnds) {
  const testing::TinyRun run = testing::TwoRankRun();
  const Trace trace = BuildTrace(run.graph, run.replay, "");
  std::multiset<std::uint64_t> from, to;
  const perfetto::PerfettoTrace written = Written(trace, &run.graph);
  for (const perfetto::TracePacket& packet : written.packet()) {
    for (const std::uint64_t flow : packet.track_event().flow_ids()) from.insert(flow);
    for (const std::uint64_t flow : packet.track_event().terminating_flow_ids()) to.insert(flow);
  }
  EXPECT_EQ(from.size(), 9u);
  EXPECT_EQ(from, to);
}

}  // namespace
}  // namespace twinstep
