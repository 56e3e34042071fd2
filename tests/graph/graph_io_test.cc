#include "sim/graph/graph_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <functional>
#include <random>

#include "sim/graph/structure.h"
#include "sim/graph/task_graph.pb.h"
#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

// Every byte of these counts, as they have no padding.
static_assert(std::has_unique_object_representations_v<Task>);
static_assert(std::has_unique_object_representations_v<Operand>);
static_assert(std::has_unique_object_representations_v<Slice>);
static_assert(std::has_unique_object_representations_v<Rendezvous>);
static_assert(std::has_unique_object_representations_v<RankInfo>);

template <typename T>
bool SameBytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

auto Fields(const Buffer& x) {
  return std::tuple(x.bytes, x.rank, x.pool, x.dtype, x.role, x.persistent);
}
auto Fields(const Group& x) { return x.members; }
auto Fields(const OpShape& x) {
  return std::tuple(x.op, x.dtype, x.flags, x.index, x.count, x.dims);
}
auto Fields(const TensorInfo& x) {
  return std::tuple(x.buffer, x.slice.offset, x.slice.bytes, x.kind, x.state, x.axis, x.axis_index,
                    x.axis_count, x.block, x.chunk, x.shard_index, x.shard_count, x.micro_batch,
                    x.cp_index, x.cp_count, x.rows, x.columns);
}
template <typename T>
bool SameFields(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return Fields(x) == Fields(y); });
}

bool Same(const TaskGraph& a, const TaskGraph& b) {
  return SameBytes(a.tasks, b.tasks) && a.rank_begin == b.rank_begin &&
         SameBytes(a.operands, b.operands) && SameFields(a.buffers, b.buffers) &&
         SameBytes(a.slices, b.slices) && SameFields(a.shapes, b.shapes) &&
         SameBytes(a.ranks, b.ranks) && SameFields(a.groups, b.groups) &&
         SameBytes(a.rendezvous, b.rendezvous) && SameFields(a.tensors, b.tensors) &&
         a.rank_class == b.rank_class &&
         a.edges.m_forward.m_rowstart == b.edges.m_forward.m_rowstart &&
         a.edges.m_forward.m_column == b.edges.m_forward.m_column;
}

// A folded graph in which no field has its default or its neighbour's value.
TaskGraph Full() {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(
      0, 64, {.role = Role::kParameter, .dtype = Dtype::kFp32, .persistent = true});
  const BufferId y =
      builder.AddBuffer(1, std::int64_t{1} << 40, {.pool = Pool::kHost, .dtype = Dtype::kUint8});
  builder.Add({.rank = 1,
               .kind = TaskKind::kHost,
               .lane = Lane::kHost,
               .shape = {.op = OpCode::kAdam,
                         .dtype = Dtype::kFp64,
                         .flags = 0x8001,
                         .index = 3,
                         .count = 65535,
                         .dims = {1, -2, std::int64_t{1} << 62, 4, 5, 6}},
               .writes = {builder.Part(y, 8, 16)},
               .phase = Phase::kOptimizer,
               .micro_batch = 1,
               .stage = 0,
               .block = 65534,
               .chunk = 7});
  builder.SendRecv(y, x);
  builder.AllReduce({x, y});
  TaskGraph graph = builder.Build();
  graph.rank_class = {0, 1, 1, 0, 1};
  graph.ranks = {{.global_rank = 3, .tp = 1, .cp = 2, .dp = 3, .pp = 4, .class_size = 2},
                 {.global_rank = 1, .tp = 5, .cp = 6, .dp = 7, .pp = 65535, .class_size = 3}};
  graph.groups[1].members = {4, 0};
  graph.rendezvous[1].group = kNone;
  TensorInfo tensor;
  tensor.buffer = 1;
  tensor.slice = {3, 4};
  tensor.kind = TensorKind::kHeadWeight;
  tensor.state = StateKind::kMoment2;
  tensor.axis = ShardAxis::kColumns;
  tensor.axis_index = 5;
  tensor.axis_count = 6;
  tensor.block = 7;
  tensor.chunk = 8;
  tensor.shard_index = 9;
  tensor.shard_count = 10;
  tensor.micro_batch = 11;
  tensor.cp_index = 12;
  tensor.cp_count = 13;
  tensor.rows = 14;
  tensor.columns = 15;
  graph.tensors = {tensor, {.buffer = 0, .slice = {}}};
  return graph;
}

std::string Bytes(const TaskGraph& graph) {
  Result<std::string> bytes = SerializeGraph(graph);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes.ok() ? bytes.value() : std::string();
}

TEST(GraphIo, RoundTripIsExact) {
  const TaskGraph graph = Full();
  const std::string bytes = Bytes(graph);
  const Result<TaskGraph> read = ParseGraph(bytes, "full");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(Same(graph, read.value()));
  EXPECT_EQ(Bytes(read.value()), bytes);
}

TEST(GraphIo, RoundTripOfRandomGraphsIsExact) {
  EXPECT_TRUE(rc::check([] {
    const TaskGraph graph = RandomGraph({.seed = *rc::gen::arbitrary<std::uint64_t>(),
                                         .ranks = *rc::gen::inRange<std::uint32_t>(1, 9),
                                         .tasks = *rc::gen::inRange<std::uint32_t>(0, 300)});
    const Result<TaskGraph> read = ParseGraph(Bytes(graph), "random");
    RC_ASSERT(read.ok());
    RC_ASSERT(Same(graph, read.value()));
  }));
}

TEST(GraphIo, FilesRoundTrip) {
  const std::string path = testing::TempDir() + "/round_trip.graph";
  const TaskGraph graph = RandomGraph({.seed = 3});
  const Status written = WriteGraph(graph, path);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const Result<TaskGraph> read = ReadGraph(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(Same(graph, read.value()));
}

TEST(GraphIo, NamesAFileThatCannotBeUsed) {
  const std::string missing = testing::TempDir() + "/no/such.graph";
  const Result<TaskGraph> read = ReadGraph(missing);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ExitCode::kBadInput);
  EXPECT_EQ(read.error().message, missing + ": cannot read: No such file or directory");
  const Status written = WriteGraph(Full(), missing);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message, missing + ": cannot write: No such file or directory");
}

TEST(GraphIo, RefusesToWriteABrokenGraph) {
  TaskGraph graph = Full();
  graph.tasks[0].shape = 99;
  const Result<std::string> bytes = SerializeGraph(graph);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ExitCode::kInternal);
  EXPECT_THAT(bytes.error().message, testing::HasSubstr("shape 99"));
}

// A version that numbers lanes otherwise.
TEST(GraphIo, ReadsEnumeratorsByName) {
  TaskGraphFile file;
  ASSERT_TRUE(file.ParseFromString(Bytes(Full())));
  file.mutable_names()->mutable_lanes()->SwapElements(0, static_cast<int>(Lane::kHost));
  for (std::uint32_t& lane : *file.mutable_tasks()->mutable_lane()) {
    if (lane == static_cast<std::uint32_t>(Lane::kHost)) lane = 0;
  }
  const Result<TaskGraph> read = ParseGraph(file.SerializeAsString(), "renamed");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(Same(Full(), read.value()));
}

TEST(GraphIo, RefusesEveryPrefix) {
  const std::string bytes = Bytes(Full());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Result<TaskGraph> read = ParseGraph(std::string_view(bytes).substr(0, size), "prefix");
    EXPECT_FALSE(read.ok()) << size << " of " << bytes.size() << " bytes";
  }
}

// Whatever is accepted is sound and can be written again.
TEST(GraphIo, SurvivesFlippedBytes) {
  const std::string bytes = Bytes(Full());
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string flipped = bytes;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      flipped[random() % bytes.size()] = static_cast<char>(random());
    }
    const Result<TaskGraph> read = ParseGraph(flipped, "flipped");
    if (!read.ok()) {
      EXPECT_THAT(read.error().message, testing::StartsWith("flipped: "));
      continue;
    }
    ++accepted;
    EXPECT_FALSE(CheckStructure(read.value()).has_value());
    EXPECT_TRUE(SerializeGraph(read.value()).ok());
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 19000);
}

struct Fault {
  const char* name;
  std::function<void(TaskGraphFile&)> apply;
  const char* said;
};

class GraphIoFault : public testing::TestWithParam<Fault> {};

TEST_P(GraphIoFault, IsNamed) {
  TaskGraphFile file;
  ASSERT_TRUE(file.ParseFromString(Bytes(Full())));
  GetParam().apply(file);
  const Result<TaskGraph> read = ParseGraph(file.SerializeAsString(), "my.graph");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ExitCode::kBadInput);
  EXPECT_EQ(read.error().message, std::string("my.graph: ") + GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(
    All, GraphIoFault,
    testing::Values(
        Fault{"Version", [](TaskGraphFile& f) { f.set_version(2); },
              "field version is 2; this program reads 1"},
        Fault{"Incomplete", [](TaskGraphFile& f) { f.clear_complete(); },
              "field complete is missing: the file was cut short"},
        Fault{"ShortColumn",
              [](TaskGraphFile& f) { f.mutable_tasks()->mutable_lane()->RemoveLast(); },
              "field tasks.lane has 4 entries, its table has 5"},
        Fault{"UnnumberedLane", [](TaskGraphFile& f) { f.mutable_tasks()->set_lane(2, 11); },
              "field tasks.lane[2] is 11, the file names 11"},
        Fault{"UnknownOperator",
              [](TaskGraphFile& f) { f.mutable_names()->set_operators(f.shapes().op(0), "fly"); },
              "field shapes.op[0] is \"fly\", which is not known here"},
        Fault{"UnknownState", [](TaskGraphFile& f) { f.mutable_tensors()->set_state(0, 6); },
              "field tensors.state[0] is 6, there are 6"},
        Fault{"SixteenBits", [](TaskGraphFile& f) { f.mutable_tasks()->set_stage(1, 65536); },
              "field tasks.stage[1] is 65536, more than 16 bits"},
        Fault{"Dims", [](TaskGraphFile& f) { f.mutable_shapes()->add_dims(1); },
              "field shapes.dims has 25 entries for 4 shapes"},
        Fault{"TaskCount", [](TaskGraphFile& f) { f.mutable_ranks()->set_task_count(0, 3); },
              "field ranks.task_count does not add up to the 5 tasks"},
        Fault{"TaskCountEntries", [](TaskGraphFile& f) { f.mutable_ranks()->add_task_count(0); },
              "field ranks.task_count has 3 entries for 2 ranks"},
        Fault{"MemberCount", [](TaskGraphFile& f) { f.mutable_groups()->set_member_count(0, 3); },
              "field groups.member_count does not add up to the 4 members"},
        Fault{"EdgeCount", [](TaskGraphFile& f) { f.mutable_tasks()->set_edge_count(0, kNone); },
              "field tasks.edge_count does not add up to the 4 edges"},
        Fault{"EdgeCountEntries", [](TaskGraphFile& f) { f.mutable_tasks()->add_edge_count(0); },
              "field tasks.edge_count has 6 entries for 5 tasks"},
        Fault{"EdgeDistance", [](TaskGraphFile& f) { f.set_edge_distance(0, -1); },
              "field edge_distance[0] is -1, from task 0 out of the 5 tasks"},
        Fault{"FarEdge", [](TaskGraphFile& f) { f.set_edge_distance(0, std::int64_t{1} << 62); },
              "field edge_distance[0] is 4611686018427387904, from task 0 out of the 5 tasks"},
        Fault{"Index", [](TaskGraphFile& f) { f.mutable_operands()->set_buffer(0, 2); },
              "breaks rule structure: task 2 (rank 1, lane host) has buffer 2 of 2"}),
    [](const testing::TestParamInfo<Fault>& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace twinstep
