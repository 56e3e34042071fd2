#include "sim/report/write_text.h"

#include "sim/files/write_file.h"

namespace twinstep {

Status WriteTextFile(const std::string& path, const std::string& text) {
  return WriteFile(path, [&text](std::ostream& out) -> Status {
    out << text;
    return Unit{};
  });
}

}  // namespace twinstep
