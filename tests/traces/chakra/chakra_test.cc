#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/traces/tiny_graph.h"
#include "traces/chakra/chakra_attributes.h"
#include "traces/chakra/chakra_file.h"
#include "traces/chakra/chakra_import.h"
#include "traces/chakra/chakra_trace.h"
#include "traces/open_trace.h"
#include "traces/trace_builder.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Delimited(const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  std::string size;
  std::size_t rest = bytes.size();
  for (; rest > 127; rest >>= 7) size += static_cast<char>((rest & 127) | 128);
  return size + static_cast<char>(rest) + bytes;
}

std::string Metadata() {
  chakra::GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  return Delimited(metadata);
}

chakra::Node MakeNode(std::uint64_t id, chakra::NodeType type, std::uint64_t duration,
                      const std::vector<std::uint64_t>& after = {}) {
  chakra::Node node;
  node.set_id(id);
  node.set_name("n" + std::to_string(id));
  node.set_type(type);
  node.set_duration_micros(duration);
  for (const std::uint64_t before : after) node.add_data_deps(before);
  return node;
}

void AddInt32(const char* name, int value, chakra::Node* node) {
  chakra::Attribute* attribute = node->add_attr();
  attribute->set_name(name);
  attribute->set_int32_val(value);
}

ChakraFile FileOf(std::int64_t rank, const std::vector<chakra::Node>& nodes) {
  std::string bytes = Metadata();
  for (const chakra::Node& node : nodes) bytes += Delimited(node);
  return ParseChakraFile(bytes, "x." + std::to_string(rank) + ".et").value();
}

std::string ErrorOf(const std::string& bytes) {
  const Result<ChakraFile> file = ParseChakraFile(bytes, "f.0.et");
  return file.ok() ? "" : file.error().message;
}

TEST(ChakraFileTest, ReadsRankSchemaAndNodes) {
  const ChakraFile file = FileOf(3, {MakeNode(0, chakra::COMM_COLL_NODE, 7)});
  EXPECT_EQ(file.rank, 3);
  EXPECT_EQ(SchemaOf(file), "0.0.4");
  ASSERT_EQ(file.nodes.size(), 1u);
  EXPECT_EQ(file.nodes[0].duration_micros(), 7u);
}

TEST(ChakraFileTest, AnyTypeOfNumberWillDo) {
  chakra::Node node;
  node.add_attr()->set_name("a");
  node.mutable_attr(0)->set_sint64_val(-5);
  node.add_attr()->set_name("b");
  node.mutable_attr(1)->set_double_val(7.6);
  node.add_attr()->set_name("c");
  node.mutable_attr(2)->set_string_val("text");
  node.add_attr()->set_name("d");
  node.mutable_attr(3)->set_fixed32_val(9);
  EXPECT_EQ(IntegerAttribute(node, "a"), -5);
  EXPECT_EQ(IntegerAttribute(node, "b"), 8);
  EXPECT_EQ(IntegerAttribute(node, "c"), std::nullopt);
  EXPECT_EQ(IntegerAttribute(node, "d"), 9);
  EXPECT_EQ(TextAttribute(node, "c"), "text");
  EXPECT_EQ(TextAttribute(node, "a"), "-5");
}

TEST(ChakraFileTest, BadFilesAreASentence) {
  const std::string node = Delimited(MakeNode(0, chakra::COMP_NODE, 1));
  EXPECT_EQ(ErrorOf(""), "f.0.et: is empty");
  EXPECT_EQ(ErrorOf(Metadata()), "f.0.et: holds no node");
  EXPECT_EQ(ErrorOf(Metadata() + node.substr(0, node.size() - 1)),
            "f.0.et: is cut short: the message at byte 8 has 8 bytes, 7 are left");
  EXPECT_THAT(ErrorOf("{\"traceEvents\": []}"), HasSubstr("is no Chakra execution trace"));
  EXPECT_THAT(ErrorOf(std::string(9, '\xff')), HasSubstr("no length at byte 0"));
  EXPECT_THAT(ErrorOf(Metadata() + Delimited(chakra::Attribute()) + "\x02\xff\x01"),
              HasSubstr("is no Node"));
}

TEST(ChakraFileTest, MetadataOfAnySchemaOrNone) {
  const std::string node = Delimited(MakeNode(0, chakra::COMP_NODE, 1));
  const std::string other = Delimited(MakeNode(1, chakra::COMP_NODE, 1));
  const ChakraFile without = ParseChakraFile(node + other, "f.0.et").value();
  EXPECT_EQ(without.nodes.size(), 2u);
  EXPECT_EQ(SchemaOf(without), "");
  // An empty message is metadata that says nothing.
  EXPECT_EQ(ParseChakraFile(std::string(1, '\0') + node, "f.0.et").value().nodes.size(), 1u);
  chakra::UnversionedMetadata unversioned;
  unversioned.add_attr()->set_name("schema");
  unversioned.mutable_attr(0)->set_string_val("1.0.1");
  EXPECT_EQ(SchemaOf(ParseChakraFile(Delimited(unversioned) + node, "f.0.et").value()), "1.0.1");
}

TEST(ChakraFileTest, NewerFieldsAreCountedAndContradictingOnesRefused) {
  chakra::Node newer = MakeNode(0, static_cast<chakra::NodeType>(8), 1);
  const google::protobuf::Reflection* reflection = newer.GetReflection();
  reflection->MutableUnknownFields(&newer)->AddLengthDelimited(11, "storage");
  const ChakraFile file = ParseChakraFile(Metadata() + Delimited(newer), "f.0.et").value();
  EXPECT_EQ(file.with_newer_fields, 1);
  EXPECT_EQ(ImportChakra({&file, 1}).value().lint.invalid_nodes.count, 0);
  // Number 8 is a message here and was a number once.
  chakra::Node older = MakeNode(0, chakra::COMP_NODE, 1);
  older.GetReflection()->MutableUnknownFields(&older)->AddVarint(8, 1);
  EXPECT_THAT(ErrorOf(Metadata() + Delimited(older)), HasSubstr("another schema"));
  EXPECT_THAT(ErrorOf(std::string(100, '\0')), HasSubstr("no node has a type"));
}

TEST(ChakraImportTest, NodesThatOverlapAreNotInOneQueue) {
  chakra::Node first = MakeNode(0, chakra::COMP_NODE, 100),
               second = MakeNode(1, chakra::COMP_NODE, 100);
  first.set_start_time_micros(1);
  second.set_start_time_micros(1);
  const ChakraFile file = FileOf(0, {first, second});
  const ChakraImport import = ImportChakra({&file, 1}).value();
  EXPECT_EQ(ReplayWork(import.work, {}).value().makespan_ps, 100'000'000);
}

TEST(ChakraImportTest, EveryRankHasItsMessages) {
  // All to all by messages: 16 ranks, each sends to all others, then receives from all others.
  std::vector<ChakraFile> files;
  constexpr int kRanks = 16;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<chakra::Node> nodes;
    for (int step = 1; step < kRanks; ++step) {
      nodes.push_back(MakeNode(nodes.size(), chakra::COMM_SEND_NODE, 1));
      AddInt32("comm_dst", (rank + step) % kRanks, &nodes.back());
    }
    for (int step = 1; step < kRanks; ++step) {
      nodes.push_back(MakeNode(nodes.size(), chakra::COMM_RECV_NODE, 1));
      AddInt32("comm_src", (rank + step) % kRanks, &nodes.back());
    }
    files.push_back(FileOf(rank, nodes));
  }
  const ChakraImport import = ImportChakra(files).value();
  EXPECT_TRUE(import.lint.clean());
  const Result<WorkReplay> run = ReplayWork(import.work, {});
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_LE(run.value().makespan_ps, 30'000'000);
}

TEST(ChakraLintTest, ACollectiveWithoutAGroupIsOfAllRanks) {
  const std::vector<ChakraFile> files = {
      FileOf(0, {MakeNode(0, chakra::COMP_NODE, 1)}),
      FileOf(1, {MakeNode(0, chakra::COMP_NODE, 1), MakeNode(1, chakra::COMM_COLL_NODE, 1)})};
  EXPECT_EQ(ImportChakra(files).value().lint.unmatched_collectives.count, 1);
}

TEST(ChakraLintTest, WhatIsWrongIsCountedAndNamed) {
  chakra::Node send = MakeNode(5, chakra::COMM_SEND_NODE, 1);
  AddInt32("comm_dst", 1, &send);
  const std::vector<ChakraFile> files = {
      FileOf(0, {MakeNode(0, chakra::COMP_NODE, 3, {77}), MakeNode(1, chakra::COMP_NODE, 4, {2}),
                 MakeNode(2, chakra::COMP_NODE, 4, {1}), MakeNode(3, chakra::COMP_NODE, 0, {0}),
                 MakeNode(3, chakra::COMP_NODE, 1), MakeNode(4, chakra::COMP_NODE, 1, {4}), send})};
  const ChakraImport import = ImportChakra(files).value();
  EXPECT_THAT(LintText(import.lint),
              ElementsAre("1 missing predecessors: n0 (x.0.et, id 0)",
                          "3 nodes in cycles: n4 (x.0.et, id 4), n2 (x.0.et, id 2), n1 (x.0.et, id "
                          "1)",
                          "1 unmatched sends and receives: n5 (x.0.et, id 5)",
                          "1 zero durations: n3 (x.0.et, id 3)",
                          "1 nodes of an id that another has: n3 (x.0.et, id 3)"));
  EXPECT_FALSE(import.lint.clean());
  // It runs in spite of all that: one lane, 3 + 4 + 4 + 1 us.
  EXPECT_EQ(ReplayWork(import.work, {}).value().makespan_ps, 12'000'000);
}

TEST(ChakraLintTest, ManyCyclesEndSoon) {
  std::vector<chakra::Node> nodes;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    nodes.push_back(MakeNode(i, chakra::COMP_NODE, 1, {i ^ 1}));
  }
  const std::vector<ChakraFile> files = {FileOf(0, nodes)};
  EXPECT_EQ(ImportChakra(files).value().lint.in_cycles.count, 20'000);
}

// Rank r sends to r + 1, then waits for the message of r - 1: with sends that wait for their
// receives nobody would begin.
TEST(ChakraImportTest, SendsOfOthersDoNotWait) {
  std::vector<ChakraFile> files;
  for (int rank = 0; rank < 3; ++rank) {
    chakra::Node send = MakeNode(0, chakra::COMM_SEND_NODE, 5);
    AddInt32("comm_dst", (rank + 1) % 3, &send);
    chakra::Node receive = MakeNode(1, chakra::COMM_RECV_NODE, 5, {0});
    AddInt32("comm_src", (rank + 2) % 3, &receive);
    files.push_back(FileOf(rank, {send, receive, MakeNode(2, chakra::COMP_NODE, 7, {1})}));
  }
  const ChakraImport import = ImportChakra(files).value();
  EXPECT_TRUE(import.lint.clean());
  const WorkReplay run = ReplayWork(import.work, {}).value();
  EXPECT_EQ(run.makespan_ps, 17'000'000);
  EXPECT_EQ(run.trace.task_size(), 9);
}

TEST(ChakraImportTest, CollectivesMeetByGroup) {
  std::vector<ChakraFile> files;
  for (int rank = 0; rank < 2; ++rank) {
    files.push_back(FileOf(rank, {MakeNode(0, chakra::COMP_NODE, rank == 0 ? 1 : 6),
                                  MakeNode(1, chakra::COMM_COLL_NODE, 2, {0})}));
  }
  const ChakraImport import = ImportChakra(files).value();
  EXPECT_TRUE(import.lint.clean());
  EXPECT_EQ(ReplayWork(import.work, {}).value().makespan_ps, 8'000'000);
  files[1].rank = 0;
  EXPECT_EQ(ImportChakra(files).error().message, "x.1.et: is a second file of rank 0");
}

std::string Folder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(ChakraTraceTest, ReadsBackToTheBit) {
  const testing::TinyRun run = testing::TwoRankRun();
  const TraceMemoryCurve curve{1, Pool::kPinnedHost, {0, 45'001}, {0, 2048}};
  const Trace trace = BuildTrace(run.graph, run.replay, "two ranks", {&curve, 1});
  const std::string path = Folder("chakra") + "/step.et";
  ASSERT_TRUE(WriteChakra(run.graph, trace, path).ok());
  for (const std::string& name :
       {path, path.substr(0, path.size() - 3), Folder("none") + "/../chakra"}) {
    const Result<OpenedTrace> opened = OpenTrace(name, {});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(opened.value().trace.SerializeAsString(), trace.SerializeAsString());
  }
  EXPECT_EQ(OpenTrace(ChakraFileName(path, 1), {}).error().message,
            ChakraFileName(path, 1) + ": is of a trace of 2 ranks, and 1 files are given");
  const ChakraFile first = ReadChakraFile(ChakraFileName(path, 0)).value();
  EXPECT_EQ(OwnTraceOf(std::vector<ChakraFile>{first, first}).error().message,
            ChakraFileName(path, 0) + ": the trace has no rank 0, or another file is of it");
}

TEST(ChakraTraceTest, NodesAreWhatOtherToolsExpect) {
  const testing::TinyRun run = testing::TwoRankRun();
  const Trace trace = BuildTrace(run.graph, run.replay, "");
  const std::string path = Folder("nodes") + "/step.et";
  ASSERT_TRUE(WriteChakra(run.graph, trace, path).ok());
  const ChakraFile file = ReadChakraFile(ChakraFileName(path, 1)).value();
  ASSERT_EQ(file.nodes.size(), 6u);
  const chakra::Node& receive = file.nodes[0];
  EXPECT_EQ(receive.type(), chakra::COMM_RECV_NODE);
  EXPECT_EQ(IntegerAttribute(receive, "comm_src"), 0);
  EXPECT_EQ(IntegerAttribute(receive, "comm_dst"), 1);
  EXPECT_EQ(IntegerAttribute(receive, "comm_size"), 512);
  EXPECT_EQ(receive.duration_micros(), 1u);
  EXPECT_EQ(file.nodes[2].type(), chakra::MEM_STORE_NODE);
  EXPECT_EQ(IntegerAttribute(file.nodes[2], "tensor_size"), 2048);
  EXPECT_EQ(file.nodes[4].type(), chakra::COMM_COLL_NODE);
  EXPECT_EQ(IntegerAttribute(file.nodes[4], "comm_type"), chakra::REDUCE_SCATTER);
  EXPECT_THAT(file.nodes[4].data_deps(), ElementsAre(2, 3));
  EXPECT_EQ(IntegerAttribute(file.nodes[5], "is_cpu_op"), 0);
  // Lane order is a dependency, too, without an edge.
  EXPECT_THAT(file.nodes[3].data_deps(), ElementsAre(1));
}

TEST(ChakraTraceTest, TheGraphReplaysAsItWas) {
  const testing::TinyRun run = testing::TwoRankRun();
  const std::string path = Folder("replay") + "/step.et";
  ASSERT_TRUE(WriteChakra(run.graph, BuildTrace(run.graph, run.replay, ""), path).ok());
  std::vector<ChakraFile> files;
  for (const std::uint32_t rank : {0u, 1u}) {
    files.push_back(ReadChakraFile(ChakraFileName(path, rank)).value());
  }
  const ChakraImport import = ImportChakra(files).value();
  EXPECT_TRUE(import.lint.missing_predecessors.count == 0 && import.lint.in_cycles.count == 0);
  EXPECT_EQ(ReplayWork(import.work, {}).value().makespan_ps, run.replay.makespan_ps);
}

TEST(ChakraTraceTest, ARingShiftIsASendAndAReceive) {
  testing::TinyTask shift{.op = OpCode::kRingShift,
                          .kind = TaskKind::kCollective,
                          .lane = Lane::kTp,
                          .dim0 = 4096,
                          .rendezvous = 0,
                          .end_ps = 3'000'000};
  const testing::TinyTask add{.ready_ps = 3'000'000, .start_ps = 3'000'000, .end_ps = 4'000'000};
  testing::TinyRun run =
      testing::MakeTinyRun({{shift, add}, {shift, add}, {shift, add}}, {{0, 1}, {2, 3}, {4, 5}});
  run.graph.groups.push_back({{2, 0, 1}});
  run.graph.rendezvous[0] = {0, 3};
  const Trace trace = BuildTrace(run.graph, run.replay, "");
  const std::string path = Folder("ring") + "/step.et";
  ASSERT_TRUE(WriteChakra(run.graph, trace, path).ok());
  std::vector<ChakraFile> files;
  for (const std::uint32_t rank : {0u, 1u, 2u}) {
    files.push_back(ReadChakraFile(ChakraFileName(path, rank)).value());
  }
  ASSERT_EQ(files[0].nodes.size(), 3u);
  EXPECT_EQ(IntegerAttribute(files[0].nodes[0], "comm_dst"), 1);
  EXPECT_EQ(IntegerAttribute(files[0].nodes[1], "comm_src"), 2);
  EXPECT_THAT(files[0].nodes[2].data_deps(), ElementsAre(0, 2));
  EXPECT_EQ(OwnTraceOf(files).value()->SerializeAsString(), trace.SerializeAsString());
  const ChakraImport import = ImportChakra(files).value();
  EXPECT_TRUE(import.lint.clean()) << LintText(import.lint)[0];
  EXPECT_EQ(ReplayWork(import.work, {}).value().makespan_ps, 4'000'000);
  std::ifstream groups(path.substr(0, path.size() - 3) + ".groups.json");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(groups), {}),
            "{\n \"0\": [\n  2,\n  0,\n  1\n ]\n}\n");
}

}  // namespace
}  // namespace twinstep
