// Values of options: each function calls `store` with the value if the option was given. Errors
// name the option and what it may be.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"

namespace twinstep {

Error OptionError(const std::string& option, const std::string& what);

// With a suffix, too: 64MiB.
Status ReadInteger(const Options& options, const char* name, std::int64_t least,
                   const std::function<void(std::int64_t)>& store);
Status ReadInteger(const Options& options, const char* name, std::int64_t least, std::int64_t most,
                   const std::function<void(std::int64_t)>& store);
Status ReadReal(const Options& options, const char* name, double least, double most,
                const std::function<void(double)>& store);
// on or off.
Status ReadOnOff(const Options& options, const char* name, const std::function<void(bool)>& store);

// One of a list of words.
template <typename Value>
Status ReadWord(const Options& options, const char* name,
                const std::vector<std::pair<std::string, Value>>& words,
                const std::function<void(Value)>& store) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  std::vector<std::string> known;
  for (const auto& [word, value] : words) {
    if (*text == word) {
      store(value);
      return Unit{};
    }
    known.push_back(word);
  }
  return OptionError(name,
                     StrCat("'", *text, "' is none of ", Joined(known), DidYouMean(*text, known)));
}

Status FirstError(std::initializer_list<Status> statuses);

}  // namespace twinstep
