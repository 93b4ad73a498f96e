#include "k8s/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/support/status_matchers.h"

namespace csidelta::k8s::list_decoder_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::IsEmpty;

// What may be taken for something else stands where it may be met.
constexpr char kList[] =
    R"({"apiVersion":"v1", "notes":{"items":[{"metadata":{"name":"no"}}]}, "items" : [ )"
    R"({"kind":"A","metadata":{"labels":{"name":"label"},"managedFields":[{"name":"field"}],)"
    R"("name":"one","uid":"name"},"spec":{"metadata":{"name":"inner"},"text":"} ] \" \\"}},)"
    "\n"
    R"({"metadata":{"name":"two"},"name":"outer"} ,{"spec":{},"metadata":{"name":"thr\u0065e"}})"
    R"( ],"kind":"List","metadata":{"name":"list","resourceVersion":"77"}})";

struct Decoded {
  absl::Status status;
  std::vector<std::string> objects;
  absl::StatusOr<Json> list = absl::UnknownError("");
};

Decoded Decode(const std::string& text, std::size_t piece_bytes,
               const std::set<std::string>* names = nullptr) {
  Decoded decoded;
  const auto is_named = [names](absl::string_view name) {
    return names->contains(std::string(name));
  };
  ListDecoder decoder(names != nullptr ? std::optional<NameFilter>(is_named) : std::nullopt);
  for (std::size_t i = 0; i < text.size() && decoded.status.ok(); i += piece_bytes) {
    decoded.status = decoder.Feed(text.substr(i, piece_bytes), [&](Json object) {
      decoded.objects.push_back(GetString(object, {"metadata", "name"}));
    });
  }
  decoded.list = decoder.Finish();
  return decoded;
}

TEST(ListDecoderTest, ReadsObjectsHoweverTheyAreCut) {
  for (std::size_t piece_bytes = 1; piece_bytes <= sizeof(kList); ++piece_bytes) {
    const Decoded decoded = Decode(kList, piece_bytes);
    EXPECT_THAT(decoded.status, IsOk());
    EXPECT_THAT(decoded.objects, ElementsAre("one", "two", "three")) << piece_bytes;
    ASSERT_THAT(decoded.list, IsOk());
    EXPECT_EQ(GetString(*decoded.list, {"metadata", "resourceVersion"}), "77");
    EXPECT_THAT(decoded.list->at("items"), IsEmpty());
  }
}

TEST(ListDecoderTest, WhatIsNotWantedIsLeftOut) {
  for (std::size_t piece_bytes = 1; piece_bytes <= sizeof(kList); ++piece_bytes) {
    for (const char* const name : {"one", "two"}) {
      const std::set<std::string> names = {name, "gone"};
      // One that is spelled with an escape is handed on to be looked at.
      EXPECT_THAT(Decode(kList, piece_bytes, &names).objects, ElementsAre(name, "three"));
    }
    for (const char* const other : {"label", "field", "inner", "outer", "no", "list", "name"}) {
      const std::set<std::string> names = {other};
      EXPECT_THAT(Decode(kList, piece_bytes, &names).objects, ElementsAre("three")) << other;
    }
  }
}

TEST(ListDecoderTest, KeysThatAreSpelledOddlyAreReadToBeSure) {
  const std::set<std::string> names = {"one"};
  for (const char* const object :
       {R"({"met\u0061data":{"name":"one"}})", R"({"metadata":{"n\u0061me":"one"}})"}) {
    const std::string list =
        absl::StrCat(R"({"items":[)", object, R"(,{"metadata":{"name":"two"}}]})");
    EXPECT_THAT(Decode(list, 4, &names).objects, ElementsAre("one"));
  }
}

TEST(ListDecoderTest, ListsWithoutObjects) {
  for (const char* const text : {R"({"items":[],"metadata":{}})", R"({"items":null})", "{}"}) {
    const Decoded decoded = Decode(text, 3);
    EXPECT_THAT(decoded.status, IsOk()) << text;
    EXPECT_THAT(decoded.objects, IsEmpty());
    EXPECT_THAT(decoded.list, IsOk()) << text;
  }
}

TEST(ListDecoderTest, WhatIsNotAListIsUnavailable) {
  for (const char* const text :
       {"", "garbage", "[]", "}{", "]", R"({"items":[{"metadata":{"name":"one"}})",
        R"({"items":[{"metadata":{"name":"one"}}])", R"({"items":[{"a" 1}]})", R"({"items":[[1]]})",
        R"({"items":[1,2]})", R"({"items":["a"]})"}) {
    const Decoded decoded = Decode(text, 5);
    EXPECT_THAT(decoded.status.ok() ? decoded.list.status() : decoded.status,
                StatusIs(absl::StatusCode::kUnavailable))
        << text;
  }
}

TEST(ListDecoderTest, HoldsOneObjectAtATimeAndNoneThatIsTooLong) {
  const std::string head = R"({"items":[)";
  const std::string object = absl::StrCat(R"({"metadata":{"name":"one"},"text":")",
                                          std::string(kListItemBytesMax / 2, 'x'), "\"}");
  EXPECT_THAT(Decode(absl::StrCat(head, object, ",", object, ",", object, "]}"), 4096).objects,
              ElementsAre("one", "one", "one"));
  const std::string longer =
      absl::StrCat(R"({"metadata":{"name":"one"},"text":")", std::string(kListItemBytesMax, 'x'));
  EXPECT_THAT(Decode(head + longer, 4096).status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(Decode("{" + std::string(kListFrameBytesMax, ' '), 4096).status,
              StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace csidelta::k8s::list_decoder_test
