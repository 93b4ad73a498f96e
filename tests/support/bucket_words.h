#pragma once

#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "storage/object_store.h"
#include "tests/support/http_test_server.h"
#include "tests/support/status_matchers.h"

// The words that tests of stores in buckets share: `using namespace support::bucket_words;`.
namespace csidelta::support::bucket_words {

using support::IsOk;
using support::IsOkAndHolds;
using support::ServedConnection;
using support::ServedRequest;
using support::StatusIs;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Code = absl::StatusCode;

inline absl::Status Ignore(const storage::ObjectInfo&) { return absl::OkStatus(); }

// An error of S3 or Azure; `more` is XML behind its message.
inline std::string ErrorXml(const std::string& code, const std::string& more = "") {
  return absl::StrCat("<Error><Code>", code, "</Code><Message>m\nRequestId:1</Message>", more,
                      "</Error>");
}

}  // namespace csidelta::support::bucket_words
