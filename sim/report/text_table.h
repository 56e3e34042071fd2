// Tables of aligned columns and paragraphs that stay within the report's width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twinstep {

inline constexpr std::size_t kReportWidth = 100;

//   TextTable table({"rank", "busy"});
//   table.AddRow({"0", "1.5 s"});
//   std::cout << table.ToString();
// The first column is aligned left, the others right; two blanks lie between columns. A column
// whose cells are all empty is left out with its title.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}
  // Columns (counted from 0) to be aligned left besides the first.
  void AlignLeft(std::size_t column) { left_.push_back(column); }
  // As many cells as there are titles.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines, each indented and ended by a newline, without blanks at their ends. Columns beyond
  // `width` follow below, behind the first one again; 0 = any width.
  std::string ToString(std::size_t indent = 2, std::size_t width = 0) const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> left_;
};

// `text` behind `label` (padded to `label_width`), broken between words; further lines, and without
// a label the first, are indented to `label_width`. Ends with a newline. No line begins with "%".
std::string Paragraph(std::string_view label, std::size_t label_width, std::string_view text,
                      std::size_t width = kReportWidth);

}  // namespace twinstep
