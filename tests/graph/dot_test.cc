#include "sim/graph/dot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

// One edge of every style, a pair and a collective.
TaskGraph Tiny() {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64);
  const BufferId y = builder.AddBuffer(1, 64);
  const BufferId host = builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost});
  builder.Compute(0, {}, {x});
  builder.CopyD2H(x, host);
  builder.SendRecv(x, y);
  const auto overwrite = builder.Compute(0, {}, {x}, Lane::kTp);
  builder.AllReduce({x, y}, Lane::kDp);
  const auto other = builder.Compute(0, {}, {});
  builder.Order(overwrite, other);
  return builder.Build();
}

struct Parsed {
  std::size_t nodes = 0, edges = 0;
};

// Boost's reader as a judge of the syntax.
Parsed Parse(const std::string& text) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> parsed;
  boost::dynamic_properties properties(boost::ignore_other_properties);
  std::istringstream in(text);
  if (!boost::read_graphviz(in, parsed, properties, "")) return {};
  return {boost::num_vertices(parsed), boost::num_edges(parsed)};
}

TEST(Dot, DrawsATinyGraph) {
  std::ifstream in("tests/graph/testdata/tiny.dot");
  const std::string golden{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(ToDot(Tiny()), golden);
}

TEST(Dot, IsWellFormed) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const TaskGraph graph = RandomGraph({.seed = seed, .ranks = 3, .tasks = 60});
    const Parsed parsed = Parse(ToDot(graph));
    std::size_t hubs = 0, lines = 0;
    for (const Rendezvous& rendezvous : graph.rendezvous) {
      const bool pair = graph.groups[rendezvous.group].members.size() == 2;
      lines += rendezvous.participants;
      hubs += pair ? 0 : 1;
    }
    // Of two members, a SEND with its RECV has one line and no hub, a collective two and a hub.
    std::size_t sends = 0, collectives_of_two = 0;
    for (const Task& task : graph.tasks) {
      if (task.kind == TaskKind::kSend) ++sends;
      if (task.kind == TaskKind::kCollective &&
          graph.rendezvous[task.rendezvous].participants == 2) {
        ++collectives_of_two;
      }
    }
    EXPECT_EQ(parsed.nodes, graph.TaskCount() + hubs + collectives_of_two / 2);
    EXPECT_EQ(parsed.edges, graph.EdgeCount() + lines - sends);
  }
}

TEST(Dot, DrawsOnlyTheRanksAskedFor) {
  const TaskGraph graph = Tiny();
  const std::string text = ToDot(graph, {.ranks = {1, 7}});
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("cluster_0")));
  // Its receive and its all-reduce with the hub; the pair's other end is not there.
  const Parsed parsed = Parse(text);
  EXPECT_EQ(parsed.nodes, 3u);
  EXPECT_EQ(parsed.edges, 2u);
}

TEST(Dot, SaysHowManyRanksAClusterStandsFor) {
  TaskGraph graph = Tiny();
  graph.rank_class = {0, 1, 0, 0};
  graph.ranks[0].class_size = 3;
  EXPECT_THAT(ToDot(graph), testing::HasSubstr("label=\"rank 0 and 2 like it\""));
}

}  // namespace
}  // namespace twinstep
