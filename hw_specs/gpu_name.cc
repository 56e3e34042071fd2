#include "hw_specs/gpu_name.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace twinstep {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool NamesChip(std::string_view word) {
  constexpr std::ptrdiff_t kDigits = 4;  // "3090"
  const auto digits = std::ranges::count_if(word, IsDigit);
  const bool is_number = digits == std::ssize(word);
  return is_number ? digits >= kDigits : digits > 0 && !IsDigit(word.front());
}

std::string_view Chip(std::string_view name) {
  constexpr std::string_view kBetween = " -_";
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find_first_of(kBetween));
    if (NamesChip(word)) return word;
    name.remove_prefix(std::min(name.size(), word.size() + 1));
  }
  return {};
}

std::string_view WithoutMaker(std::string_view name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  return name.starts_with(kMaker) ? name.substr(kMaker.size()) : name;
}

}  // namespace

bool IsSameGpu(std::string_view a, std::string_view b) {
  return !a.empty() && WithoutMaker(a) == WithoutMaker(b);
}

bool AreOtherChips(std::string_view a, std::string_view b) {
  const std::string_view of_a = Chip(a), of_b = Chip(b);
  return !of_a.empty() && !of_b.empty() && of_a != of_b;
}

}  // namespace twinstep
