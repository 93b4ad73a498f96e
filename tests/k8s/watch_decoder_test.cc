#include "k8s/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace csidelta::k8s::watch_decoder_test {
namespace {

using support::IsOkAndHolds;
using support::StatusIs;
using testing::HasSubstr;

constexpr char kStream[] =
    "{\"type\":\"ADDED\",\"object\":{\"n\":9223372036854775807}}\n"
    "\r\n"
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}\r\n"
    "{\"type\":\"DELETED\",\"object\":{}}\n";

TEST(WatchDecoderTest, ReadsEventsHoweverTheyAreCut) {
  const std::string stream = kStream;
  for (std::size_t piece_bytes = 1; piece_bytes <= stream.size(); ++piece_bytes) {
    WatchDecoder decoder;
    std::vector<WatchEvent> events;
    for (std::size_t i = 0; i < stream.size(); i += piece_bytes) {
      const std::string piece = stream.substr(i, piece_bytes);
      EXPECT_THAT(decoder.Feed(piece,
                               [&](const WatchEvent& event) {
                                 events.push_back(event);
                                 return true;
                               }),
                  IsOkAndHolds(true));
    }
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[0].kind, WatchEvent::Kind::kAdded);
    EXPECT_EQ(DumpJson(events[0].object), "{\"n\":9223372036854775807}");
    EXPECT_EQ(events[1].kind, WatchEvent::Kind::kBookmark);
    EXPECT_EQ(events[2].kind, WatchEvent::Kind::kDeleted);
  }
}

TEST(WatchDecoderTest, StopsWhenTheSinkHasEnough) {
  WatchDecoder decoder;
  int events = 0;
  EXPECT_THAT(decoder.Feed(kStream,
                           [&](const WatchEvent&) {
                             ++events;
                             return false;
                           }),
              IsOkAndHolds(false));
  EXPECT_EQ(events, 1);
}

absl::Status FeedAll(const std::string& text) {
  WatchDecoder decoder;
  return decoder.Feed(text, [](const WatchEvent&) { return true; }).status();
}

TEST(WatchDecoderTest, TurnsErrorEventsIntoErrors) {
  const auto event = [](const std::string& object) {
    return "{\"type\":\"ERROR\",\"object\":" + object + "}\n";
  };
  EXPECT_THAT(FeedAll(event("{\"code\":410,\"message\":\"too old resource version\"}")),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("too old")));
  EXPECT_THAT(FeedAll(event("{\"code\":500,\"message\":\"etcd\"}")),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(FeedAll(event("{}")), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(FeedAll(event("{\"code\":403}")), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(WatchDecoderTest, GarbageIsUnavailable) {
  for (const char* text : {"garbage\n", "[]\n", "null\n", "{}\n", "{\"type\":\"ADDED\"}\n",
                           "{\"type\":\"ADDED\",\"object\":[]}\n", "{\"type\":1,\"object\":{}}\n",
                           "{\"type\":\"NEWS\",\"object\":{}}\n", "{\"type\":\"ADDED\",\n"}) {
    EXPECT_THAT(FeedAll(text), StatusIs(absl::StatusCode::kUnavailable)) << text;
  }
}

TEST(WatchDecoderTest, AnEndlessLineIsRefused) {
  WatchDecoder decoder;
  const std::string piece(std::size_t{1} << 20, 'x');
  absl::Status status;
  int pieces = 0;
  for (; pieces < 64 && status.ok(); ++pieces) {
    status = decoder.Feed(piece, [](const WatchEvent&) { return true; }).status();
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("8388608 bytes")));
  EXPECT_EQ(pieces, 9);
}

struct AnswerCase {
  int http_status;
  const char* body;
  absl::StatusCode code;
};

TEST(StatusFromAnswerTest, MapsWhatServersSay) {
  const AnswerCase cases[] = {
      {400, "", absl::StatusCode::kInvalidArgument},
      {401, "", absl::StatusCode::kUnauthenticated},
      {403, "{}", absl::StatusCode::kPermissionDenied},
      {404, "404 page not found\n", absl::StatusCode::kNotFound},
      {408, "", absl::StatusCode::kUnavailable},
      {409, "{\"reason\":\"AlreadyExists\"}", absl::StatusCode::kAlreadyExists},
      {409, "{\"reason\":\"Conflict\"}", absl::StatusCode::kAborted},
      {409, "", absl::StatusCode::kAborted},
      {410, "", absl::StatusCode::kOutOfRange},
      {413, "", absl::StatusCode::kInvalidArgument},
      {422, "", absl::StatusCode::kInvalidArgument},
      {429, "", absl::StatusCode::kResourceExhausted},
      {500, "", absl::StatusCode::kUnavailable},
      {503, "", absl::StatusCode::kUnavailable},
      {504, "", absl::StatusCode::kUnavailable},
      {500,
       "{\"message\":\"Internal error occurred: failed calling webhook \\\"w.io\\\": denied\"}",
       absl::StatusCode::kUnavailable},
      {500, "{\"message\":\"admission webhook \\\"w.io\\\" denied the request: no\"}",
       absl::StatusCode::kFailedPrecondition},
      {403, "{\"message\":\"admission webhook \\\"w.io\\\" denied the request: no\"}",
       absl::StatusCode::kPermissionDenied},
      {302, "", absl::StatusCode::kUnknown},
  };
  for (const AnswerCase& test : cases) {
    EXPECT_THAT(StatusFromAnswer(test.http_status, test.body), StatusIs(test.code))
        << test.http_status << " " << test.body;
  }
  EXPECT_THAT(StatusFromAnswer(404, "{\"message\":\"pods \\\"a\\\" not found\"}"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("pods \"a\" not found")));
}

}  // namespace
}  // namespace csidelta::k8s::watch_decoder_test
