#include "plugin/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace csidelta::plugin::convert_test {
namespace {

using testing::HasSubstr;

struct BadItemCase {
  const char* name;
  std::string bytes;
  const char* want;
};

class DecodeBadItemTest : public testing::TestWithParam<BadItemCase> {};

TEST_P(DecodeBadItemTest, NamesFieldAndFault) {
  const absl::Status status = DecodeItem("item", GetParam().bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("item: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().want));
}

const BadItemCase kBadItems[] = {
    {"Empty", "", "malformed JSON"},
    {"Cut", R"({"kind":"Pod")", "malformed JSON"},
    {"Trailing", R"({"kind":"Pod"} x)", "malformed JSON"},
    {"Null", "null", "not object"},
    {"Array", "[]", "not object"},
    {"Number", "7", "not object"},
    {"Text", R"("x")", "not object"},
    {"NoKind", R"({"apiVersion":"v1"})", "without a kind"},
    {"EmptyKind", R"({"kind":""})", "without a kind"},
    {"KindIsNumber", R"({"kind":7})", "without a kind"},
    {"KindIsNull", R"({"kind":null})", "without a kind"},
    {"NotUtf8", "{\"kind\":\"\xff\"}", "malformed JSON"},
    {"TooDeep", std::string(100000, '['), "nested deeper"},
    {"NotANumber", R"({"kind":"Pod","n":NaN})", "malformed JSON"},
    {"Zeroes", std::string(3, '\0'), "malformed JSON"},
};
INSTANTIATE_TEST_SUITE_P(Table, DecodeBadItemTest, testing::ValuesIn(kBadItems),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DecodeOwnerTest, NeedsNoKind) {
  EXPECT_TRUE(DecodeOwner("backup", "{}").ok());
  EXPECT_FALSE(DecodeOwner("backup", "[]").ok());
}

constexpr char kOddButLegal[] =
    "{ \"kind\" : \"Pod\", \"z\":1, \"a\":9007199254740993, \"f\":1.50, \"e\":1e3 }\n";

TEST(EncodeItemTest, ItemLeftAloneComesBackByteForByte) {
  const objects::Object item = *DecodeItem("item", kOddButLegal);
  EXPECT_EQ(*EncodeItem(std::nullopt, item, kOddButLegal), kOddButLegal);
  EXPECT_EQ(*EncodeItem(item, item, kOddButLegal), kOddButLegal);
}

TEST(EncodeItemTest, LargeIntegersAndUnknownFieldsSurviveAChange) {
  const std::string bytes =
      R"({"big":9223372036854775807,"kind":"Pod","neg":-9223372036854775808,"odd":{"x":[1,null,2.5]}})";
  const objects::Object item = *DecodeItem("item", bytes);
  Json changed = item.json();
  changed["new"] = true;
  EXPECT_EQ(
      *EncodeItem(objects::Object(changed), item, bytes),
      R"({"big":9223372036854775807,"kind":"Pod","neg":-9223372036854775808,"new":true,"odd":{"x":[1,null,2.5]}})");
}

TEST(EncodeItemTest, RefusesWhatTheHostCouldNotDecode) {
  const objects::Object item = *DecodeItem("item", R"({"kind":"Pod"})");
  for (const Json& bad : {Json(), Json("x"), Json::array(), Json::object()}) {
    EXPECT_EQ(EncodeItem(objects::Object(bad), item, "{}").status().code(),
              absl::StatusCode::kInternal)
        << bad.dump();
  }
}

TEST(EncodeProgressTest, PassingTroubleIsNotAFailure) {
  for (const absl::Status& trouble :
       {absl::UnavailableError("away"), absl::ResourceExhaustedError("away"),
        absl::AbortedError("away"), absl::DeadlineExceededError("away"),
        absl::CancelledError("away")}) {
    const auto progress = EncodeProgress(trouble);
    ASSERT_TRUE(progress.ok()) << trouble.ToString();
    EXPECT_FALSE(progress->completed());
    EXPECT_EQ(progress->description(), "away");
    EXPECT_EQ(progress->err(), "");
  }
  EXPECT_EQ(EncodeProgress(absl::NotFoundError("gone")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(EncodeProgressTest, UnknownTimesAreYearOne) {
  const auto progress = EncodeProgress(velero::OperationProgress{});
  EXPECT_EQ(progress->started().seconds(), -62135596800);
  EXPECT_EQ(progress->started().nanos(), 0);
  EXPECT_EQ(progress->updated().seconds(), -62135596800);
}

TEST(EncodeProgressTest, TimesBeyondTheWireFormatAreUnknown) {
  velero::OperationProgress progress;
  progress.started = absl::InfiniteFuture();
  progress.updated = absl::InfinitePast();
  EXPECT_EQ(ToProto(progress).started().seconds(), -62135596800);
  EXPECT_EQ(ToProto(progress).updated().seconds(), -62135596800);
  EXPECT_EQ(ToProto(progress).started().nanos(), 0);
  EXPECT_EQ(ToProto(progress).updated().nanos(), 0);
}

TEST(EncodeProgressTest, TextsAreUtf8) {
  velero::OperationProgress progress;
  progress.error = "\xff";
  progress.description = "\xff";
  progress.units = "\xff";
  EXPECT_EQ(ToProto(progress).err(), "�");
  EXPECT_EQ(ToProto(progress).description(), "�");
  EXPECT_EQ(ToProto(progress).operationunits(), "�");
}

TEST(IdentifierTest, RoundTrips) {
  const velero::ResourceIdentifier item{"g", "r", "ns", "n"};
  EXPECT_EQ(FromProto(ToProto(item)), item);
  EXPECT_EQ(ToProto(velero::ResourceIdentifier{"\xff", "", "", ""}).group(), "�");
}

}  // namespace
}  // namespace csidelta::plugin::convert_test
