#include "tests/contract/locked_store_contract.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/random.h"
#include "storage/credentials.h"
#include "storage/location.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_locked_store.h"

namespace csidelta::contract::locked_store_contract_test {
namespace {

class FakeSubject : public LockedStoreSubject {
 public:
  storage::ObjectStore& store() override { return fake_; }
  absl::Time Now() override { return clock_.Now(); }
  void Pass(absl::Duration time) override { clock_.Advance(time); }
  absl::Status DeleteBypassingGovernance(const std::string& key,
                                         const std::string& version) override {
    fake_.MayBypassGovernance(true);
    const absl::Status status = fake_.DeleteVersion({}, key, version);
    fake_.MayBypassGovernance(false);
    return status;
  }
  absl::Status SetLegalHold(const std::string& key, const std::string& version, bool on) override {
    fake_.SetLegalHold(key, version, on);
    return absl::OkStatus();
  }
  absl::Status SetDefaultRetention(const std::string& mode, int days) override {
    fake_.SetDefaultRetention(mode, absl::Hours(24) * days);
    return absl::OkStatus();
  }
  void LockPuts(const std::string& mode, absl::Duration duration) override {
    fake_.LockPuts(mode, duration);
  }

 private:
  support::FakeClock clock_;
  support::FakeLockedStore fake_{clock_};
};

// The bucket with object lock that CSI_DELTA_TEST_LOCKED_STORE names
// ("s3:http://host:port/bucket"), with the AWS environment's keys, which may do all; each test
// below a prefix of its own, which stays. The requests that csi-delta never makes are curl's.
class RealSubject : public LockedStoreSubject {
 public:
  explicit RealSubject(const std::string& text) {
    const uint64_t number = Random::Real().Below(uint64_t{1} << 60);
    const auto location = storage::ParseLocation(absl::StrCat(text, "/", absl::Hex(number)));
    CSIDELTA_CHECK(location.ok());
    location_ = *location;
    settings_.environment = storage::CredentialsEnvironment::Read(
        [](const char* name) -> const char* { return std::getenv(name); });
    LockPuts("", absl::ZeroDuration());
    CSIDELTA_CHECK(
        Send("PUT", "?policy=", "",
             absl::StrCat(R"({"Statement":[{"Effect":"Allow","Principal":"*",)",
                          R"("Action":"s3:BypassGovernanceRetention","Resource":"arn:aws:s3:::)",
                          location_.bucket, "/*\"}]}"))
            .ok());
  }

  storage::ObjectStore& store() override { return *store_; }
  absl::Time Now() override { return absl::Now(); }
  void Pass(absl::Duration time) override { Clock::Real().SleepFor(time, {}); }
  absl::Status DeleteBypassingGovernance(const std::string& key,
                                         const std::string& version) override {
    return Send("DELETE", Target(key, absl::StrCat("versionId=", version)),
                "x-amz-bypass-governance-retention: true", "");
  }
  absl::Status SetLegalHold(const std::string& key, const std::string& version, bool on) override {
    return Send("PUT", Target(key, absl::StrCat("legal-hold=&versionId=", version)), "",
                absl::StrCat("<LegalHold><Status>", on ? "ON" : "OFF", "</Status></LegalHold>"));
  }
  absl::Status SetDefaultRetention(const std::string& mode, int days) override {
    const std::string rule =
        mode.empty() ? ""
                     : absl::StrCat("<Rule><DefaultRetention><Mode>", mode, "</Mode><Days>", days,
                                    "</Days></DefaultRetention></Rule>");
    return Send("PUT", "?object-lock=", "",
                absl::StrCat("<ObjectLockConfiguration><ObjectLockEnabled>Enabled"
                             "</ObjectLockEnabled>",
                             rule, "</ObjectLockConfiguration>"));
  }
  void LockPuts(const std::string& mode, absl::Duration duration) override {
    settings_.s3.object_lock_mode = mode;
    settings_.s3.object_lock_duration = duration;
    auto opened = storage::OpenStore(location_, settings_, Random::Real());
    CSIDELTA_CHECK(opened.ok());
    opened_.push_back(*std::move(opened));
    store_ = &opened_.back()->store();
  }

 private:
  std::string Target(const std::string& key, const std::string& query) const {
    return absl::StrCat("/", location_.prefix, key, "?", query);
  }

  // A request for what is below the bucket; an answer that is no success is an error.
  absl::Status Send(const std::string& method, const std::string& target, const std::string& header,
                    const std::string& body) const {
    const auto variable = [](const char* name) { return std::string(std::getenv(name)); };
    std::string command = absl::StrCat(
        "curl --silent --output /dev/null --write-out '%{http_code}' --request ", method,
        " --aws-sigv4 'aws:amz:", variable("AWS_REGION"), ":s3' --user '",
        variable("AWS_ACCESS_KEY_ID"), ":", variable("AWS_SECRET_ACCESS_KEY"),
        "' --header 'x-amz-content-sha256: ", Sha256Hex(body), "' '", location_.endpoint.scheme,
        "://", location_.endpoint.HostHeader(), "/", location_.bucket, target, "'");
    if (!header.empty()) {
      absl::StrAppend(&command, " --header '", header, "'");
    }
    if (!body.empty()) {
      absl::StrAppend(&command, " --header 'x-amz-checksum-sha256: ",
                      absl::Base64Escape(absl::HexStringToBytes(Sha256Hex(body))),
                      "' --data-binary '", body, "'");
    }
    std::FILE* const answer = popen(command.c_str(), "r");
    CSIDELTA_CHECK(answer != nullptr);
    int status = 0;
    const bool has_status = std::fscanf(answer, "%d", &status) == 1;
    const bool has_ended = pclose(answer) == 0;
    return has_status && has_ended && status / 100 == 2
               ? absl::OkStatus()
               : absl::PermissionDeniedError(absl::StrCat(method, " ", target, ": ", status));
  }

  storage::Location location_;
  storage::StoreSettings settings_;
  std::vector<std::unique_ptr<storage::OpenedStore>> opened_;
  storage::ObjectStore* store_ = nullptr;
};

std::vector<LockedStoreCase> Cases() {
  std::vector<LockedStoreCase> cases = {
      {"Fake", [] { return std::make_unique<FakeSubject>(); }},
  };
  if (const char* location = std::getenv("CSI_DELTA_TEST_LOCKED_STORE"); location != nullptr) {
    // versitygw 1.7.0.
    cases.push_back(
        {.name = "Real",
         .make = [text = std::string(location)] { return std::make_unique<RealSubject>(text); },
         .refuses_earlier_dates = false,
         .lets_governance_become_compliance = false});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Stores, LockedStoreContract, testing::ValuesIn(Cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace csidelta::contract::locked_store_contract_test
