#include "sim/report/write_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "sim/str_cat.h"

namespace twinstep {

Status WriteTextFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (file) file << text;
  file.close();
  if (!file) return Error{.message = StrCat(path, ": cannot write: ", std::strerror(errno))};
  return Unit{};
}

}  // namespace twinstep
