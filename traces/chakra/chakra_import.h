// Chakra execution traces, one file a rank, as a program to replay, and what is wrong with them.
//
//   std::vector<ChakraFile> files = ...;
//   Result<ChakraImport> import = ImportChakra(files);
//   import.value().lint.missing_predecessors.count ...
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/result.h"
#include "traces/chakra/chakra_file.h"
#include "traces/work_graph.h"

namespace twinstep {

// How often, and where first: at most three nodes, by name, file and id.
struct LintFinding {
  std::int64_t count = 0;
  std::vector<std::string> nodes;
};

struct ChakraLint {
  LintFinding missing_predecessors;   // A dependency on a node that the file does not have.
  LintFinding in_cycles;              // Nodes that wait for themselves.
  LintFinding unmatched_messages;     // Sends without receives, receives without sends.
  LintFinding unmatched_collectives;  // That not all ranks of their group have.
  LintFinding zero_durations;         // Of work that should take time.
  LintFinding repeated_ids;           // Nodes after the first of an id: they are left out.
  LintFinding invalid_nodes;          // Of no known type: taken as work without a duration.

  bool clean() const;
};

// "missing predecessors", ...: what was found, a line a kind.
std::vector<std::string> LintText(const ChakraLint& lint);

struct ChakraImport {
  WorkGraph work;
  ChakraLint lint;
};

// Dependencies that are missing or close a cycle are left out. Lanes: our own files name theirs; in
// others computation on devices and on the host, messages each way, memory loads and stores have
// one each, collectives one a process group. Sends find receives by source, destination and tag,
// collectives each other by process group, each in their order. A send of another program's does
// not wait for its receive. An Error (kBadInput) where two files are of one rank, or times are
// beyond the clock.
Result<ChakraImport> ImportChakra(std::span<const ChakraFile> files);

}  // namespace twinstep
