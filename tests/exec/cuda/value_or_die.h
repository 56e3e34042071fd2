// For benchmarks: ends the program with an Error's sentence and exit code, or with 2 where a number
// is not in its limits.
//
//   const std::int64_t gpus = WithinOrDie<std::int64_t>(ParseInteger(argv[2]), "N", 1, 1024);
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "sim/result.h"

namespace twinstep {

template <typename T>
T ValueOrDie(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(static_cast<int>(result.error().code));
  }
  return std::move(result).value();
}

template <typename Number>
Number WithinOrDie(Result<Number> number, const char* name, Number least, Number most) {
  const Number value = ValueOrDie(std::move(number));
  if (value >= least && value <= most) return value;
  std::fprintf(stderr, "%s is not in [%g, %g]\n", name, static_cast<double>(least),
               static_cast<double>(most));
  std::exit(2);
}

}  // namespace twinstep
