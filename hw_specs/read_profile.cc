#include "hw_specs/read_profile.h"

#include <utility>

#include "hw_specs/validate_profile.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

Result<Profile> ReadProfile(const std::string& path) {
  Result<ParsedText<Profile>> profile = ParseTextFileWithSource<Profile>(path);
  if (!profile.ok()) return profile.error();
  const auto& [message, source] = profile.value();
  for (const Status& valid :
       {ValidateProfile(message, source), ValidateMeasuredOn(message, source)}) {
    if (!valid.ok()) return valid.error();
  }
  return std::move(profile).value().message;
}

}  // namespace twinstep
