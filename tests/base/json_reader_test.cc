#include "base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/json_text.h"
#include "tests/support/status_matchers.h"

namespace csidelta::json_reader_test {
namespace {

using support::IsOk;
using support::StatusIs;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

absl::Status SkipAll(absl::string_view text) {
  JsonReader reader(text);
  reader.Skip();
  return reader.Finish();
}

std::string ReadString(absl::string_view text) {
  JsonReader reader(text);
  const std::string value(reader.String());
  return reader.Finish().ok() ? value : "error";
}

TEST(JsonReaderTest, ReadsMembersAndElements) {
  JsonReader reader(" { \"a\" : [ 1 , 18446744073709551615 ], \"b\":null , \"c\":{} } \n");
  std::vector<std::string> seen;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    seen.emplace_back(key);
    if (key == "a") {
      reader.BeginArray();
      while (reader.NextElement()) {
        seen.push_back(std::to_string(reader.Unsigned()));
      }
    } else if (!reader.TakeNull()) {
      reader.Skip();
    }
  }
  EXPECT_THAT(reader.Finish(), IsOk());
  EXPECT_THAT(seen, ElementsAre("a", "1", "18446744073709551615", "b", "c"));
}

TEST(JsonReaderTest, ReadsStrings) {
  EXPECT_EQ(ReadString("\"\""), "");
  EXPECT_EQ(ReadString("\"plain\""), "plain");
  EXPECT_EQ(ReadString(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(ReadString(R"("\u0041\u00e4\u20AC\ud83d\ude00")"),
            "A\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  for (const char* text :
       {"\"", "\"a", "\"\\\"", R"("\u12")", R"("\u12g4")", R"("\ud83d")", R"("\ud83d\u0041")",
        R"("\ude00")", R"("\x41")", R"("a\)", "a", "1", ""}) {
    EXPECT_EQ(ReadString(text), "error") << text;
  }
}

TEST(JsonReaderTest, EscapesBecomeTheShortestUtf8) {
  EXPECT_EQ(ReadString(R"("\u007f\u0080")"), "\x7F\xC2\x80");
  EXPECT_EQ(ReadString(R"("\u07ff\u0800")"), "\xDF\xBF\xE0\xA0\x80");
  EXPECT_EQ(ReadString(R"("\uffff\ud800\udc00")"), "\xEF\xBF\xBF\xF0\x90\x80\x80");
}

TEST(JsonReaderTest, ErrorsNameTheByteAndWhatWasExpected) {
  EXPECT_THAT(SkipAll("[1 2]"),
              StatusIs(absl::StatusCode::kInvalidArgument, EndsWith("at byte 3: expected ,")));
  EXPECT_THAT(SkipAll(R"("\u0041)"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at byte 7: expected \"")));
  EXPECT_THAT(SkipAll(R"("\u004)"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed escape")));
}

TEST(JsonReaderTest, NumbersAreWholeAndFit) {
  for (const char* text :
       {"-1", "1.0", "1e3", "18446744073709551616", "99999999999999999999999", "\"1\"", "", "+1"}) {
    JsonReader reader(text);
    reader.Unsigned();
    EXPECT_THAT(reader.Finish(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(JsonReaderTest, SkipsOnlyWhatIsWellFormed) {
  for (const char* text : {"{}", "[]", "[1,-2.5e+3,true,false,null,\"x\",{\"a\":[[]]}]", "0"}) {
    EXPECT_THAT(SkipAll(text), IsOk()) << text;
  }
  for (const char* text : {"", "{", "[", "[1", "[1 2]", "[,]", "{\"a\"}", "{\"a\":}", "{a:1}",
                           "{\"a\":1,}", "[1]]", "tru", "nul", "}", "{\"a\":1]"}) {
    EXPECT_THAT(SkipAll(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(JsonReaderTest, AZeroByteIsNotTheEnd) {
  EXPECT_THAT(SkipAll(std::string("1\0", 2)), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(JsonReaderTest, FinishRefusesAnOpenBracket) {
  JsonReader reader("[1");
  reader.BeginArray();
  ASSERT_TRUE(reader.NextElement());
  EXPECT_EQ(reader.Unsigned(), 1u);
  EXPECT_THAT(reader.Finish(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(JsonReaderTest, DeepNestingIsAnError) {
  EXPECT_THAT(SkipAll(std::string(60, '[') + std::string(60, ']')), IsOk());
  EXPECT_THAT(SkipAll(std::string(100'000, '[')), StatusIs(absl::StatusCode::kInvalidArgument));
  std::string objects;
  for (int i = 0; i < 1000; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_THAT(SkipAll(objects), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Gives a text in pieces of so many bytes.
class Pieces {
 public:
  Pieces(std::string text, std::size_t piece_bytes)
      : text_(std::move(text)), piece_bytes_(piece_bytes) {}

  absl::StatusOr<absl::string_view> Next() {
    piece_ = text_.substr(0, piece_bytes_);  // A copy: the one before is no longer valid.
    text_.erase(0, piece_.size());
    return piece_;
  }

 private:
  std::string text_;
  const std::size_t piece_bytes_;
  std::string piece_;
};

// All values of a text, as one line.
std::string Flatten(JsonReader& reader) {
  std::string out;
  absl::string_view key;
  reader.BeginObject();
  while (reader.NextMember(key)) {
    out.append(key.data(), key.size());
    reader.BeginArray();
    while (reader.NextElement()) {
      if (reader.TakeNull()) {
        out += " null";
        continue;
      }
      reader.BeginObject();
      while (reader.NextMember(key)) {
        out += " " + std::string(key.substr(0, 9));
        out += key == "number" ? std::to_string(reader.Unsigned()) : std::string(reader.String());
      }
    }
  }
  const absl::Status status = reader.Finish();
  return status.ok() ? out : std::string(status.message());
}

TEST(JsonReaderTest, ATextInPiecesReadsAsInOne) {
  std::string text = "{\"list\" : [";
  for (int i = 0; i < 200; ++i) {
    text += "{\"number\":" + std::to_string(i * 1'000'003) + ", \"name\" : \"" +
            std::string(static_cast<std::size_t>(i) * 7, 'x') + "\\u00e4\\n\"}, null,  ";
  }
  text += std::string(20'000, ' ') + "{\"" + std::string(9000, 'k') + "\":\"" +
          std::string(9000, 'v') + "\"}]}  ";
  JsonReader whole(text);
  const std::string expected = Flatten(whole);
  EXPECT_THAT(expected, HasSubstr("number199000597"));
  for (const std::size_t piece_bytes : {1UL, 7UL, 100UL, 4096UL, 1'000'000UL}) {
    Pieces pieces(text, piece_bytes);
    const auto next = [&] { return pieces.Next(); };
    JsonReader reader(next);
    EXPECT_EQ(Flatten(reader), expected) << piece_bytes;
    // Cut off, or with something that follows.
    for (const std::string& bad : {text.substr(0, text.size() - 3), text + "x"}) {
      JsonReader whole_bad(bad);
      Pieces bad_pieces(bad, piece_bytes);
      const auto bad_next = [&] { return bad_pieces.Next(); };
      JsonReader bad_reader(bad_next);
      EXPECT_EQ(Flatten(bad_reader), Flatten(whole_bad)) << piece_bytes;
    }
  }
}

TEST(JsonReaderTest, ATextInPiecesHasAnEndToItsStringsAndItsErrors) {
  for (const char* character : {"x", "\\n"}) {
    int count = 0;
    std::string piece;
    const auto endless = [&]() -> absl::StatusOr<absl::string_view> {
      piece = count++ == 0 ? "\"" : "";
      for (int i = 0; i < 10'000; ++i) {
        piece += character;
      }
      return piece;
    };
    JsonReader reader(endless);
    reader.Skip();
    EXPECT_THAT(reader.Finish(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("string too long")));
    EXPECT_LT(count, 220);
  }
  const auto broken = [&]() -> absl::StatusOr<absl::string_view> {
    return absl::DataLossError("torn");
  };
  JsonReader reader(broken);
  reader.Skip();
  EXPECT_THAT(reader.Finish(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(JsonTextTest, EscapesAsResticDoes) {
  EXPECT_EQ(JsonText("plain"), "\"plain\"");
  EXPECT_EQ(JsonText("<a&b>"), "\"\\u003ca\\u0026b\\u003e\"");
  EXPECT_EQ(JsonText("\"\\\n\r\t\x01"), "\"\\\"\\\\\\n\\r\\t\\u0001\"");
  EXPECT_EQ(JsonText("\xC3\xA4"), "\"\xC3\xA4\"");
  EXPECT_EQ(JsonText("\xE2\x80\xA8"), "\"\\u2028\"");
  EXPECT_EQ(JsonText("a\xFFz"), "\"a\\ufffdz\"");
  EXPECT_EQ(JsonText("\xED\xA0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonText("\xE2\x82"), "\"\\ufffd\\ufffd\"");
}

}  // namespace
}  // namespace csidelta::json_reader_test
