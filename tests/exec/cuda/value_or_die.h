// For benchmarks: ends the program with an Error's sentence and exit code.
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

}  // namespace twinstep
