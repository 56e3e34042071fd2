#include "sim/options/read_option.h"

#include "sim/textproto/quantity.h"

namespace twinstep {

Error OptionError(const std::string& option, const std::string& what) {
  return Error{.message = StrCat("--", option, ": ", what)};
}

Status ReadInteger(const Options& options, const char* name, std::int64_t least,
                   const std::function<void(std::int64_t)>& store) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  const Result<std::int64_t> value = ParseInteger(*text);
  if (!value.ok()) return OptionError(name, value.error().message);
  if (value.value() < least) return OptionError(name, StrCat(*text, " is less than ", least));
  store(value.value());
  return Unit{};
}

Status ReadInteger(const Options& options, const char* name, std::int64_t least, std::int64_t most,
                   const std::function<void(std::int64_t)>& store) {
  Status within = Unit{};
  const Status read = ReadInteger(options, name, least, [&](std::int64_t x) {
    if (x <= most) return store(x);
    within = OptionError(name, StrCat(*options.Get(name), " is more than ", most));
  });
  return read.ok() ? within : read;
}

Status ReadReal(const Options& options, const char* name, double least, double most,
                const std::function<void(double)>& store) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  const Result<double> value = ParseReal(*text);
  if (!value.ok()) return OptionError(name, value.error().message);
  if (value.value() < least || value.value() > most) {
    return OptionError(name, StrCat(*text, " is not between ", least, " and ", most));
  }
  store(value.value());
  return Unit{};
}

Status ReadOnOff(const Options& options, const char* name, const std::function<void(bool)>& store) {
  return ReadWord<bool>(options, name, {{"on", true}, {"off", false}}, store);
}

Status FirstError(std::initializer_list<Status> statuses) {
  for (const Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return Unit{};
}

}  // namespace twinstep
