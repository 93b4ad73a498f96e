// csi-delta doctor --bucket, as docs/buckets.md has it: the whole program in this process, on a
// server of S3, and on a directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/cli/program_runner.h"
#include "tests/support/fake_s3_server.h"

namespace csidelta::cli::doctor_bucket_test {
namespace {

using support::FakeS3Options;
using support::FakeS3Server;
using support::ServedConnection;
using support::ServedRequest;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DoctorBucketTest : public testing::Test {
 protected:
  explicit DoctorBucketTest(FakeS3Options options = {}) : server_(options) {
    program_.variables = {{"AWS_ACCESS_KEY_ID", options.access_key_id},
                          {"AWS_SECRET_ACCESS_KEY", options.secret_access_key}};
    Serve([](const ServedRequest&) { return false; });
  }

  // Answers 403 to what is `denied`, and to the questions for rules as a bucket without any.
  void Serve(bool (*denied)(const ServedRequest& request)) {
    server_.Interfere([denied](const ServedRequest& request, ServedConnection& connection) {
      constexpr char kDenied[] = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
      if (denied(request)) {
        connection.Send(403, kDenied, {});
        return true;
      }
      if (absl::StrContains(request.target, "?versioning")) {
        connection.Send(200, "<VersioningConfiguration/>", {});
        return true;
      }
      for (const auto& [query, code] :
           {std::pair("?lifecycle", "NoSuchLifecycleConfiguration"),
            std::pair("?object-lock", "ObjectLockConfigurationNotFoundError")}) {
        if (absl::StrContains(request.target, query)) {
          connection.Send(404, absl::StrCat("<Error><Code>", code, "</Code></Error>"), {});
          return true;
        }
      }
      return false;
    });
  }

  std::string Address() const { return absl::StrCat("s3:", server_.url(), "/bucket/shop"); }
  // "check grade" of each finding that is not good.
  std::set<std::string> Ailments(const Outcome& outcome) const {
    std::set<std::string> found;
    for (const absl::string_view line : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
      const Json json = ParseJson(line).value_or(Json());
      if (GetString(json, {"message_type"}) == "finding" && GetString(json, {"grade"}) != "good") {
        found.insert(absl::StrCat(GetString(json, {"check"}), " ", GetString(json, {"grade"})));
      }
    }
    return found;
  }

  FakeS3Server server_;
  ProgramRunner program_;
};

TEST_F(DoctorBucketTest, ABucketIsNamedInFourWaysAndNothingIsLeftInIt) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--bucket", Address()},
                                             {"--bucket", "--repo", Address()},
                                             {"-r", Address(), "--bucket", "--all"},
                                             {"--bucket"}}) {
    program_.variables.erase("RESTIC_REPOSITORY");
    if (words.size() == 1) {
      program_.variables["RESTIC_REPOSITORY"] = Address();
    }
    std::vector<std::string> line = {"doctor", "--json"};
    line.insert(line.end(), words.begin(), words.end());
    const Outcome outcome = program_.Run(line);
    EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.out << outcome.error;
    EXPECT_THAT(outcome.out, HasSubstr("access key AKIDTEST of AWS_ACCESS_KEY_ID"));
    EXPECT_EQ(Ailments(outcome), std::set<std::string>{"bucket-clock unknown"});
    EXPECT_EQ(outcome.Result().value("faults", -1), 0);
  }
  EXPECT_THAT(server_.objects(), IsEmpty());
  EXPECT_THAT(server_.refusals(), IsEmpty());
  for (const ServedRequest& request : server_.requests()) {
    EXPECT_TRUE(request.method != "PUT" ||
                absl::StartsWith(request.target, "/bucket/shop/doctor/bucket-"))
        << request.target;
  }
}

TEST_F(DoctorBucketTest, ADirectoryNeedsNothingElse) {
  const Outcome outcome = program_.Run({"doctor", "--bucket", program_.Path("repo"), "--all"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << outcome.out << outcome.error;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("with the rights of this user"),
                                 HasSubstr("0 faults, 0 warnings, 0 notes, 0 unknown")));
  EXPECT_TRUE(std::filesystem::is_empty(program_.Path("repo")));
}

TEST_F(DoctorBucketTest, EachRightThatIsMissingIsNamed) {
  const std::pair<const char*, bool (*)(const ServedRequest&)> kRights[] = {
      {"s3:PutObject", [](const ServedRequest& r) { return r.method == "PUT"; }},
      {"s3:GetObject",
       [](const ServedRequest& r) {
         return r.method == "GET" && absl::StrContains(r.target, "/object");
       }},
      {"s3:ListBucket",
       [](const ServedRequest& r) { return absl::StrContains(r.target, "list-type"); }},
      {"s3:DeleteObject", [](const ServedRequest& r) { return r.method == "DELETE"; }},
      {"s3:GetBucketVersioning",
       [](const ServedRequest& r) { return absl::StrContains(r.target, "?versioning"); }}};
  for (const auto& [right, denied] : kRights) {
    Serve(denied);
    const Outcome outcome = program_.Run({"doctor", "--bucket", Address()});
    const bool is_rule = absl::StrContains(right, "Versioning");
    EXPECT_EQ(outcome.code, is_rule ? ExitCode::kOk : ExitCode::kFailed) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("give the credentials the right ", right)));
  }
}

TEST_F(DoctorBucketTest, AnAddressNeedsTheFlagAndABucketNeedsAnAddress) {
  EXPECT_THAT(program_.Run({"doctor", Address()}).error, HasSubstr("needs --bucket"));
  EXPECT_THAT(program_.Run({"doctor", "--bucket"}).error, HasSubstr("no repository is named"));
}

class OldGatewayTest : public DoctorBucketTest {
 protected:
  OldGatewayTest()
      : DoctorBucketTest(
            {.heeds_ranges = false,
             .quirks = {.if_none_match = support::S3Quirks::Condition::kNotImplemented}}) {}
};

TEST_F(OldGatewayTest, IsFoundToIgnoreConditionsAndRanges) {
  const Outcome outcome = program_.Run({"doctor", "--bucket", Address(), "--json"});
  EXPECT_EQ(outcome.code, ExitCode::kFailed);
  EXPECT_EQ(Ailments(outcome),
            (std::set<std::string>{"bucket-clock unknown", "bucket-condition note",
                                   "bucket-range fault"}));
}

TEST_F(DoctorBucketTest, LocksOfTheOptionsAreNotPutOnWhatIsTried) {
  const Outcome outcome =
      program_.Run({"doctor", "--bucket", Address(), "--option", "s3.object-lock-mode=COMPLIANCE",
                    "--option", "s3.object-lock-days=30"});
  EXPECT_THAT(outcome.out, HasSubstr("backups ask for locks of 30 days"));
  for (const ServedRequest& request : server_.requests()) {
    EXPECT_THAT(request.headers, Not(testing::Contains(testing::Key("x-amz-object-lock-mode"))));
  }
}

TEST_F(DoctorBucketTest, ASignalEndsItAndNothingIsLeft) {
  std::stop_source stop;
  server_.Spoil([&](const ServedRequest& request) {
    if (absl::StrContains(request.target, "/condition")) {
      stop.request_stop();
    }
    return FakeS3Server::Spoiling::kNone;
  });
  EXPECT_EQ(program_.Run({"doctor", "--bucket", Address()}, stop.get_token()).code,
            ExitCode::kInterrupted);
  EXPECT_THAT(server_.objects(), IsEmpty());
  EXPECT_FALSE(server_.requests().empty());
}

}  // namespace
}  // namespace csidelta::cli::doctor_bucket_test
