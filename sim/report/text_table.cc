#include "sim/report/text_table.h"

#include <algorithm>

#include "sim/printable.h"

namespace twinstep {
namespace {

void TrimEnd(std::string* line) { line->erase(line->find_last_not_of(' ') + 1); }

}  // namespace

std::string TextTable::ToString(std::size_t indent) const {
  std::vector<std::size_t> width(titles_.size(), 0);
  // Cells hold names of foreign files.
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = PrintableLine(cell);
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::vector<bool> shown(titles_.size());
  for (std::size_t i = 0; i < titles_.size(); ++i) {
    shown[i] = i == 0 || width[i] > 0;
    width[i] = std::max(width[i], titles_[i].size());
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!shown[i]) continue;
      if (i > 0) line += "  ";
      const std::string padding(width[i] - cells[i].size(), ' ');
      const bool left = i == 0 || std::find(left_.begin(), left_.end(), i) != left_.end();
      line += left ? cells[i] + padding : padding + cells[i];
    }
    TrimEnd(&line);
    text += line + "\n";
  };
  add_line(titles_);
  for (const auto& row : rows) add_line(row);
  return text;
}

std::string Paragraph(std::string_view label, std::size_t label_width, std::string_view text) {
  const std::string printable = Printable(text);
  text = printable;
  std::string line(label);
  if (!label.empty()) line.resize(std::max(label_width, label.size() + 1), ' ');
  std::string result;
  bool line_has_word = false;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    if (line_has_word && line.size() + 1 + word.size() > kReportWidth) {
      result += line + "\n";
      line.assign(label_width, ' ');
      line_has_word = false;
    }
    if (line_has_word) line += ' ';
    line += word;
    line_has_word = true;
  }
  TrimEnd(&line);
  return result + line + "\n";
}

}  // namespace twinstep
