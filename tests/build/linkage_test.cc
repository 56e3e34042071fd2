// A binary must run on a machine that has neither protobuf nor Boost: //third_party links them
// statically, and this test is such a binary.

#include <gmock/gmock.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <link.h>

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace {

// Paths of the shared objects that the dynamic linker loaded into this process.
std::vector<std::string> LoadedSharedObjects() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

TEST(LinkageTest, ProtobufHeadersMatchTheLibrary) {
  GOOGLE_PROTOBUF_VERIFY_VERSION;  // aborts if they do not
  google::protobuf::Duration duration;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString("seconds: 3 nanos: 5", &duration));
  EXPECT_EQ(duration.seconds(), 3);
  EXPECT_EQ(duration.nanos(), 5);
}

TEST(LinkageTest, ProgramOptionsParse) {
  boost::program_options::options_description options;
  options.add_options()("ranks", boost::program_options::value<int>());
  boost::program_options::variables_map values;
  const std::vector<std::string> arguments = {"--ranks=8"};
  store(boost::program_options::command_line_parser(arguments).options(options).run(), values);
  EXPECT_EQ(values.at("ranks").as<int>(), 8);
}

TEST(LinkageTest, ProtobufAndBoostAreInsideTheBinary) {
  const std::vector<std::string> loaded = LoadedSharedObjects();
  EXPECT_THAT(loaded, testing::Contains(testing::HasSubstr("libc.so")));  // the list is real
  EXPECT_THAT(loaded, testing::Not(testing::Contains(testing::HasSubstr("libprotobuf"))));
  EXPECT_THAT(loaded, testing::Not(testing::Contains(testing::HasSubstr("libboost"))));
}

}  // namespace
