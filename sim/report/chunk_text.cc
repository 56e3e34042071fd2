#include "sim/report/chunk_text.h"

#include <algorithm>
#include <optional>

#include "sim/format.h"
#include "sim/plan/plan_names.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of a table: its beginning and its end say how it goes on.
constexpr std::size_t kRowsOfEachEnd = 8;

class Cells {
 public:
  explicit Cells(const SimulationResults& results) : unit_(SecondsUnit(results.iteration_s)) {}
  std::string At(Picoseconds ps) const {
    return Fixed(static_cast<double>(ps) / kPicosecondsPerSecond / unit_.size, 3);
  }
  std::string Of(Picoseconds ps) const { return ps == 0 ? "-" : At(ps); }
  std::string Of(const std::optional<Span>& span) const {
    return span ? StrCat(At(span->begin_ps), "-", At(span->end_ps)) : "-";
  }
  std::string Title(const char* what) const { return StrCat(what, " ", unit_.name); }

 private:
  TableUnit unit_;
};

// "embedding, 0-2".
std::string BlocksText(const std::vector<std::uint16_t>& blocks, std::int64_t layers) {
  std::vector<std::uint16_t> sorted = blocks;
  std::ranges::sort(sorted);
  std::string text, ends;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] == layers + 1) text = "embedding";
    if (sorted[i] == layers) ends = "head";
    if (sorted[i] >= layers) continue;
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1 &&
           sorted[last + 1] < layers) {
      ++last;
    }
    // The embedding's number is the highest, but it is used first.
    if (std::ranges::find(blocks, layers + 1) != blocks.end() && text.empty()) text = "embedding";
    text += StrCat(text.empty() ? "" : ", ", sorted[i], last > i ? StrCat("-", sorted[last]) : "");
    i = last;
  }
  if (text.empty()) return ends;
  return ends.empty() ? text : text + ", " + ends;
}

template <typename Row, typename AddRow>
std::string Table(const std::vector<Row>& rows, TextTable table, const AddRow& add_row) {
  const bool all = rows.size() <= 2 * kRowsOfEachEnd + 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (all || i < kRowsOfEachEnd || i >= rows.size() - kRowsOfEachEnd) add_row(&table, rows[i]);
    if (!all && i == kRowsOfEachEnd) {
      add_row(&table, std::optional<std::size_t>(rows.size() - 2 * kRowsOfEachEnd));
    }
  }
  return table.ToString();
}

std::string GradientText(const Report& report, const ChunksOfRank& rank) {
  if (rank.gradient_bytes == 0) {
    return StrCat("gradients take the parameters' place: ", rank.parameter_bytes, " + ",
                  rank.optimizer_bytes, " bytes a parameter");
  }
  const char* why = report.plan.p > 1   ? "other micro-batches are in other stages"
                    : report.plan.m > 1 ? "later micro-batches need the parameters"
                                        : "they are wider than parameters";
  return StrCat("gradients have chunks of their own, since ", why, ": ", rank.parameter_bytes,
                " + ", rank.gradient_bytes, " + ", rank.optimizer_bytes, " bytes a parameter");
}

std::string ChunksText(const Report& report, const ChunksOfRank& rank, const Cells& cells) {
  const auto persistent = std::ranges::count(rank.chunks, true, &ChunkReport::on_gpu);
  const double all =
      static_cast<double>(rank.chunk_bytes) * static_cast<double>(rank.chunks.size());
  std::string text =
      StrCat("\nChunks of rank ", rank.global_rank, ": ",
             CountOf(static_cast<std::int64_t>(rank.chunks.size()), "chunk"), " of ",
             Bytes(static_cast<double>(rank.chunk_bytes)), ", ",
             Percent(static_cast<double>(rank.waste_bytes) / all), " waste; ", persistent,
             " on the GPU, the others through ", CountOf(rank.buffers, "buffer"), "\n");
  text += Paragraph(
      "", 2, StrCat("(", GradientText(report, rank), "; not hidden: nothing computes meanwhile)"));
  TextTable table({"chunk", "blocks", "lives", cells.Title("first"), cells.Title("last"),
                   cells.Title("offloaded"), cells.Title("updated"), cells.Title("not hidden")});
  for (const std::size_t column : {1u, 2u}) table.AlignLeft(column);
  struct Adder {
    const Report& report;
    const Cells& cells;
    void operator()(TextTable* t, const ChunkReport& x) const {
      t->AddRow({std::to_string(x.chunk), BlocksText(x.blocks, report.model.layers()),
                 x.on_gpu ? "gpu" : "host", cells.Of(x.first_upload), cells.Of(x.last_upload),
                 cells.Of(x.offloaded), cells.Of(x.updated), cells.Of(x.exposed_ps)});
    }
    void operator()(TextTable* t, std::optional<std::size_t> more) const {
      t->AddRow({"...", StrCat(*more, " more"), "", "", "", "", "", ""});
    }
  };
  return text + Table(rank.chunks, std::move(table), Adder{report, cells});
}

std::string BlocksTable(const ChunksOfRank& rank, const Cells& cells) {
  TextTable table({"block", "activations", "swapped", cells.Title("out"), cells.Title("back"),
                   cells.Title("recompute"), cells.Title("not hidden")});
  table.AlignLeft(1);
  struct Adder {
    const Cells& cells;
    void operator()(TextTable* t, const BlockReport& x) const {
      t->AddRow({std::to_string(x.block), WordFor(x.choice),
                 x.swapped_bytes == 0 ? "-" : Bytes(static_cast<double>(x.swapped_bytes)),
                 cells.Of(x.out), cells.Of(x.back), cells.Of(x.recompute_ps),
                 cells.Of(x.exposed_ps)});
    }
    void operator()(TextTable* t, std::optional<std::size_t> more) const {
      t->AddRow({"...", StrCat(*more, " more"), "", "", "", "", ""});
    }
  };
  return StrCat("\nBlocks of rank ", rank.global_rank,
                ": where their activations are from forward to backward\n",
                Table(rank.blocks, std::move(table), Adder{cells}));
}

}  // namespace

std::string ChunkText(const Report& report) {
  if (!report.results || report.results->chunked.empty()) return "";
  const ChunksOfRank& rank = report.results->chunked.front();
  const Cells cells(*report.results);
  std::string text;
  if (!rank.chunks.empty()) text += ChunksText(report, rank, cells);
  if (!rank.blocks.empty()) text += BlocksTable(rank, cells);
  const std::size_t rows = 2 * kRowsOfEachEnd + 1;
  const bool shortened =
      report.results->chunked.size() > 1 || rank.chunks.size() > rows || rank.blocks.size() > rows;
  return shortened ? text + "  ... all rows and ranks: --json\n" : text;
}

}  // namespace twinstep
