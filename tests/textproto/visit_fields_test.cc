#include "sim/textproto/visit_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hw_specs/profile.pb.h"

namespace twinstep {
namespace {

using testing::ElementsAre;

Profile TwoOperators() {
  Profile profile;
  google::protobuf::TextFormat::ParseFromString(
      "name: 'p' operators { op: 'adam' dims: 3 dims: 0 } operators {} operators { dtype: 'bf16' }",
      &profile);
  return profile;
}

TEST(VisitFieldsTest, WalksInOrderThroughAllThatIsSet) {
  std::vector<std::string> paths;
  EXPECT_TRUE(VisitFields(TwoOperators(), [&](const FieldPlace& place) {
    paths.push_back(place.path);
    EXPECT_EQ(place.index >= 0, place.field.is_repeated());
    EXPECT_EQ(place.message.GetDescriptor(), place.field.containing_type());
    return true;
  }));
  EXPECT_THAT(paths, ElementsAre("name", "operators[0].op", "operators[0].dims[0]",
                                 "operators[0].dims[1]", "operators[2].dtype"));
}

TEST(VisitFieldsTest, EndsWhereItIsTold) {
  std::vector<std::string> paths;
  EXPECT_FALSE(VisitFields(TwoOperators(), [&](const FieldPlace& place) {
    paths.push_back(place.path);
    return place.index != 0;
  }));
  EXPECT_THAT(paths, ElementsAre("name", "operators[0].op", "operators[0].dims[0]"));
  EXPECT_TRUE(VisitFields(Profile(), [](const FieldPlace&) { return false; }));
}

}  // namespace
}  // namespace twinstep
