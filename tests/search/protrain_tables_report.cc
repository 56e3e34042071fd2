// Prints ProTrain's tables 2 and 4 (v2) beside what the search finds:
//
//   bazel run //tests/search:protrain_tables_report
#include <iostream>
#include <string>
#include <vector>

#include "sim/format.h"
#include "sim/report/text_table.h"
#include "sim/search/plan_space.h"
#include "sim/str_cat.h"
#include "tests/search/protrain_tables.h"

namespace twinstep {
namespace {

void PrintTableTwo() {
  TextTable table({"cluster", "GPUs", "paper", "found", "difference"});
  const auto row = [&](const std::string& cluster, std::int64_t gpus, double paper) {
    const double found = LargestModel(cluster, gpus);
    table.AddRow(
        {cluster, Count(gpus), Fixed(paper, 0), Fixed(found, 1), Percent(found / paper - 1)});
  };
  row("4x3090", 1, 34);
  row("4x3090", 4, 37);
  row("4xa100", 1, 75);
  row("4xa100", 4, 87);
  std::cout << "Table 2: the largest GPT-2 of hidden size 8192, billions of parameters\n"
            << table.ToString();
}

std::string Counts(std::int64_t persistent, std::int64_t buffers, std::int64_t swapped,
                   std::int64_t checkpointed) {
  return StrCat(persistent, "/", buffers, "/", swapped, "/", checkpointed);
}

void PrintTableFour() {
  TextTable table({"row", "cluster", "Adam G/s", "published", "ms", "GiB", "found", "ms", "GiB",
                   "published slower by"});
  const auto gibibytes = [](std::int64_t bytes) {
    return Fixed(static_cast<double>(bytes) / (1 << 30), 2);
  };
  for (const TableFourRow& row : TableFour()) {
    std::vector<AdamRate> rates{AdamRate::kOfCluster};
    // In the other rows all chunks persist, or the CPU updates few beside a long backward.
    if (row.id == "D") rates.insert(rates.end(), {AdamRate::kBoundRanks, AdamRate::kDram});
    if (row.id == "E") rates.insert(rates.end(), {AdamRate::kOneProcess, AdamRate::kDram});
    for (const AdamRate rate : rates) {
      const RowResult x = Search(row, rate);
      table.AddRow({row.id, row.cluster, Fixed(1e-9 * ParamsPerSecond(row.cluster, rate), 2),
                    Counts(row.persistent, row.buffers, row.swapped, row.checkpointed),
                    x.lacks ? "does not fit" : Fixed(1e3 * x.published_s, 1),
                    gibibytes(x.published_bytes),
                    Counts(x.best.chunks.persistent, x.best.chunks.buffers,
                           CountBlocks(x.best, BLOCK_SWAP), CountBlocks(x.best, BLOCK_CHECKPOINT)),
                    Fixed(1e3 * x.best_s, 1), gibibytes(x.best_bytes),
                    Percent(x.published_s / x.best_s - 1)});
    }
  }
  std::cout
      << "\nTable 4: persistent chunks/buffers/swapped/checkpointed blocks, by the rate of CPU "
         "Adam\n"
      << table.ToString();
}

}  // namespace
}  // namespace twinstep

int main() {
  twinstep::PrintTableTwo();
  twinstep::PrintTableFour();
}
