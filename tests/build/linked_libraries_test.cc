// What the binary asks of the machine that it is carried to: neither protobuf nor Boost nor
// OpenBLAS, which are inside it, nor CUDA's libraries, which are loaded when a GPU is used.

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

// Names in the dynamic section of a 64-bit ELF file.
std::vector<std::string> NeededLibraries(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  const std::string bytes = content.str();
  std::vector<std::string> names;
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) return names;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{};
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_DYNAMIC) continue;
    Elf64_Shdr strings{};
    std::memcpy(&strings, bytes.data() + header.e_shoff + section.sh_link * sizeof strings,
                sizeof strings);
    for (std::size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry{};
      std::memcpy(&entry, bytes.data() + section.sh_offset + at, sizeof entry);
      if (entry.d_tag == DT_NEEDED) {
        names.emplace_back(bytes.data() + strings.sh_offset + entry.d_un.d_val);
      }
    }
  }
  return names;
}

TEST(LinkedLibrariesTest, OnlyTheSystemsOwnAreNeeded) {
  const std::vector<std::string> needed = NeededLibraries("twinstep");
  EXPECT_THAT(needed, testing::Contains(testing::HasSubstr("libc.so")));  // The list is real.
  for (const char* name : {"protobuf", "boost", "openblas", "gfortran", "libcuda", "cublas",
                           "cudnn", "nccl", "cupti"}) {
    EXPECT_THAT(needed, testing::Not(testing::Contains(testing::HasSubstr(name))));
  }
}

}  // namespace
