// Prints ProTrain's tables 2 and 4 (v2) beside what the search finds:
//
//   bazel run //tests/search:protrain_tables_report
#include <iostream>
#include <string>

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

void PrintTableFour(bool adam_at_dram_speed) {
  TextTable table({"row", "cluster", "published", "ms", "GPU GiB", "found", "ms", "GPU GiB",
                   "published is slower by"});
  const auto gibibytes = [](std::int64_t bytes) {
    return Fixed(static_cast<double>(bytes) / (1 << 30), 2);
  };
  for (const TableFourRow& row : TableFour()) {
    const RowResult x = Search(row, adam_at_dram_speed);
    table.AddRow(
        {row.id, row.cluster, Counts(row.persistent, row.buffers, row.swapped, row.checkpointed),
         x.lacks ? "does not fit" : Fixed(1e3 * x.published_s, 1), gibibytes(x.published_bytes),
         Counts(x.best.chunks.persistent, x.best.chunks.buffers, CountBlocks(x.best, BLOCK_SWAP),
                CountBlocks(x.best, BLOCK_CHECKPOINT)),
         Fixed(1e3 * x.best_s, 1), gibibytes(x.best_bytes), Percent(x.published_s / x.best_s - 1)});
  }
  std::cout << "\nTable 4: persistent chunks/buffers/swapped/checkpointed blocks; "
            << (adam_at_dram_speed ? "CPU Adam as fast as DRAM\n" : "clusters as their files\n")
            << table.ToString();
}

}  // namespace
}  // namespace twinstep

int main() {
  twinstep::PrintTableTwo();
  twinstep::PrintTableFour(false);
  twinstep::PrintTableFour(true);
}
