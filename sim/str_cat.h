// Joins values into a string, each as operator<< writes it.
//
//   StrCat("t c p = ", 12, " does not divide ", 64)
#pragma once

#include <sstream>
#include <string>

namespace twinstep {

template <typename... Values>
std::string StrCat(const Values&... values) {
  std::ostringstream out;
  (out << ... << values);
  return std::move(out).str();
}

// All values of a range, with commas between them: "pp, tp, dp".
template <typename Values>
std::string Joined(const Values& values) {
  std::ostringstream out;
  const char* between = "";
  for (const auto& value : values) {
    out << between << value;
    between = ", ";
  }
  return std::move(out).str();
}

}  // namespace twinstep
