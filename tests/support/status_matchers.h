#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Matchers for absl::Status and absl::StatusOr, under the names of the later upstream ones:
//   EXPECT_THAT(client.Delete(...), IsOk());
//   EXPECT_THAT(client.Get(...), StatusIs(absl::StatusCode::kNotFound, HasSubstr("ns/name")));
//   EXPECT_THAT(ParseQuantity("1Ki"), IsOkAndHolds(1024));
namespace csidelta::support {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  *result_listener << "whose status is " << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << "whose status is " << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message_matcher,
           "has status code " + absl::StatusCodeToString(code) + " and a matching message") {
  *result_listener << "whose status is " << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         testing::ExplainMatchResult(message_matcher, std::string(StatusOf(arg).message()),
                                     result_listener);
}

MATCHER_P(IsOkAndHolds, value_matcher, "is OK and holds a matching value") {
  if (!arg.ok()) {
    *result_listener << "whose status is " << arg.status().ToString();
    return false;
  }
  return testing::ExplainMatchResult(value_matcher, *arg, result_listener);
}

}  // namespace csidelta::support
