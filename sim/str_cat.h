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

}  // namespace twinstep
