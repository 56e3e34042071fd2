// Does the verifier find what is wrong? Breaks a valid graph in many ways, one at a time, and
// checks that Verify reports each with the right rule, and that it does not report what is
// harmless.
//
//   const MutationReport report = TestMutations(Lower(...).value(), {.seed = 1});
//   EXPECT_THAT(report.failures, testing::IsEmpty());
//   EXPECT_GT(report.edges_needed, 0u);
//
// Edges: each sampled one is removed. Verify must complain exactly if ClosureOracle says that the
// edge is needed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sim/graph/task_graph.h"
#include "sim/graph/violation.h"

namespace twinstep {

enum class Mutation {
  kReverseEdge,       // A second edge, back from an edge's target to its source.
  kSwapInLane,        // Two neighbours in a lane change places, their edges stay with them.
  kDropWrite,         // The only write before a read.
  kReadUnwritten,     // A read of a buffer that nobody writes.
  kUnorderedWrites,   // Two tasks without a path between them write one more buffer.
  kOrderedWrites,     // Harmless: two tasks with a path between them do.
  kDropParticipant,   // A task leaves its rendezvous.
  kExtraParticipant,  // A rendezvous waits for one more.
  kOtherSize,         // A participant has another size than the others.
  kSwapRendezvous,    // Two rendezvous of the same ranks change places on one of them.
  kForeignBuffer,     // A task touches another rank's buffer.
  kUnknownBuffer,     // A buffer out of range.
  kEdgeAcrossRanks,   // An edge to another rank.
};
inline constexpr int kMutationCount = static_cast<int>(Mutation::kEdgeAcrossRanks) + 1;
const char* Name(Mutation mutation);

// The rule that the mutant breaks; nothing where the mutation is harmless.
std::optional<Rule> Breaks(Mutation mutation);

// A mutant of the graph at a random place; nothing where the graph has no such place.
std::optional<TaskGraph> Mutate(const TaskGraph& graph, Mutation mutation, std::mt19937_64& random);

struct MutationOptions {
  std::uint64_t seed = 1;
  // All edges of a graph that has no more than these, else that many at random.
  std::uint32_t edges = 500;
  // Mutants of each kind.
  std::uint32_t mutants = 4;
};

struct MutationReport {
  std::uint32_t edges_tried = 0;
  std::uint32_t edges_needed = 0;
  std::array<std::uint32_t, kMutationCount> mutants{};  // By Mutation: how many were possible.
  std::vector<std::string> failures;                    // What Verify missed or took for wrong.
};

MutationReport TestMutations(const TaskGraph& graph, const MutationOptions& options = {});

}  // namespace twinstep
