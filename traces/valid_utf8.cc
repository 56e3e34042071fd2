#include "traces/valid_utf8.h"

#include <cstddef>

namespace twinstep {

std::string ValidUtf8(std::string text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t more = lead < 0x80                   ? 0
                             : lead >= 0xc2 && lead < 0xe0 ? 1
                             : lead >= 0xe0 && lead < 0xf0 ? 2
                             : lead >= 0xf0 && lead < 0xf5 ? 3
                                                           : text.size();
    bool valid = i + more < text.size();
    for (std::size_t k = 1; valid && k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      // Longer than needed, surrogates, beyond the last code point.
      const bool out_of_range =
          k == 1 && ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
                     (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f));
      valid = (next & 0xc0) == 0x80 && !out_of_range;
    }
    if (!valid) text[i] = '?';
    i += valid ? more + 1 : 1;
  }
  return text;
}

}  // namespace twinstep
