// Errors are results: a value, or what went wrong and which exit code it deserves.
//
//   Result<Plan> plan = ResolvePlan(...);
//   if (!plan.ok()) return plan.error();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace twinstep {

// Exit codes of every verb.
enum class ExitCode : int {
  kDone = 0,
  kNo = 1,        // The answer is no: infeasible, out of tolerance.
  kBadInput = 2,  // A file, option or value cannot be used.
  kInternal = 3,
};

struct Error {
  ExitCode code = ExitCode::kBadInput;
  std::string message = {};  // One sentence, names the file, line, field, rule, rank or pool.
  // Filled where a plan is infeasible; -1 / empty otherwise.
  std::string rule = {};  // Stable identifier, e.g. "layers-divide", "gpu-memory".
  std::int64_t rank = -1;
  std::string pool = {};  // "gpu", "pinned_host", "host".
  std::int64_t excess_bytes = 0;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit on purpose.
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit on purpose.
  bool ok() const { return std::holds_alternative<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T& value() & { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;

}  // namespace twinstep
