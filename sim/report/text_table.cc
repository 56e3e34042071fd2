#include "sim/report/text_table.h"

#include <algorithm>

#include "sim/printable.h"

namespace twinstep {
namespace {

void TrimEnd(std::string* line) { line->erase(line->find_last_not_of(' ') + 1); }

}  // namespace

std::string TextTable::ToString(std::size_t indent, std::size_t width) const {
  std::vector<std::size_t> widths(titles_.size(), 0);
  // Cells hold names of foreign files.
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows) {
    for (std::string& cell : row) cell = PrintableLine(cell);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], TextColumns(row[i]));
    }
  }
  // By part, the columns behind the first.
  std::vector<std::vector<std::size_t>> parts(1);
  widths[0] = std::max(widths[0], TextColumns(titles_[0]));
  const std::size_t first_end = indent + widths[0];
  std::size_t end = first_end;
  for (std::size_t i = 1; i < titles_.size(); ++i) {
    if (widths[i] == 0) continue;
    widths[i] = std::max(widths[i], TextColumns(titles_[i]));
    end += 2 + widths[i];
    if (width > 0 && end > width && !parts.back().empty()) {
      parts.emplace_back();
      end = first_end + 2 + widths[i];
    }
    parts.back().push_back(i);
  }
  std::string text;
  for (const std::vector<std::size_t>& part : parts) {
    const auto add_line = [&](const std::vector<std::string>& cells) {
      std::string line(indent, ' ');
      line += cells[0] + std::string(widths[0] - TextColumns(cells[0]), ' ');
      for (const std::size_t i : part) {
        const std::string padding(widths[i] - TextColumns(cells[i]), ' ');
        const bool left = std::find(left_.begin(), left_.end(), i) != left_.end();
        line += "  " + (left ? cells[i] + padding : padding + cells[i]);
      }
      TrimEnd(&line);
      text += line + "\n";
    };
    add_line(titles_);
    for (const auto& row : rows) add_line(row);
  }
  return text;
}

std::string Paragraph(std::string_view label, std::size_t label_width, std::string_view text,
                      std::size_t width) {
  const std::string printable = Printable(text);
  text = printable;
  std::string line(label);
  const std::size_t columns = TextColumns(label);
  line.append(label.empty() || columns < label_width ? label_width - columns : 1, ' ');
  // Of `line`, which is longer in bytes than in columns where names are.
  std::size_t end = TextColumns(line);
  std::string result;
  bool line_has_word = false;
  while (!text.empty()) {
    std::size_t space = std::min(text.find_first_of(" \n"), text.size());
    if (text.substr(space, 2) == " %") {
      space = std::min(text.find_first_of(" \n", space + 1), text.size());
    }
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.empty()) continue;
    const std::size_t word_columns = TextColumns(word);
    if (line_has_word && end + 1 + word_columns > width) {
      result += line + "\n";
      line.assign(label_width, ' ');
      end = label_width;
      line_has_word = false;
    }
    if (line_has_word) {
      line += ' ';
      ++end;
    }
    line += word;
    end += word_columns;
    line_has_word = true;
  }
  TrimEnd(&line);
  return result + line + "\n";
}

}  // namespace twinstep
