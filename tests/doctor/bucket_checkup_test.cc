// A store with one fault at a time: the checkup names it, and leaves nothing behind.
#include "doctor/bucket_checkup.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/bucket_rules.h"
#include "storage/forwarding_object_store.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_locked_store.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/paths.h"
#include "tests/support/status_matchers.h"

namespace csidelta::doctor::bucket_checkup_test {
namespace {

using storage::BucketDocument;
using storage::CallKind;
using storage::ObjectInfo;
using Kind = storage::Location::Kind;
using support::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);
constexpr char kPrefix[] = "backups/shop/";

// A bucket that is good but for what a test sets. Counts the calls that reach it.
class RoughStore : public storage::ForwardingObjectStore {
 public:
  using ForwardingObjectStore::ForwardingObjectStore;

  std::set<CallKind> denied = {};
  bool overlooks_condition = false;
  bool knows_condition = true;
  bool finds_new = true;
  bool reads_late = false;
  bool lists_late = false;
  bool heeds_ranges = true;
  bool heeds_delimiter = true;
  bool keeps_deleted = false;
  int64_t wrong_size = 0;
  absl::Duration ahead = absl::ZeroDuration();
  bool archives = false;
  int calls = 0;
  std::function<absl::Status()> on_call = [] { return absl::OkStatus(); };

  absl::Status Put(const CallContext& ctx, const std::string& key, absl::string_view bytes,
                   const storage::PutOptions& options) override {
    if (options.if_absent && !knows_condition) {
      return absl::UnimplementedError("NotImplemented");
    }
    if (const auto now = inner().Get(ctx, key, 1000); now.ok()) {
      before_[key] = *now;
    }
    return ForwardingObjectStore::Put(ctx, key, bytes,
                                      {.if_absent = options.if_absent && !overlooks_condition});
  }
  absl::StatusOr<std::string> Get(const CallContext& ctx, const std::string& key,
                                  int64_t size_bytes_max) override {
    if (!finds_new || archives) {
      return archives ? absl::FailedPreconditionError("InvalidObjectState; the object is archived")
                      : absl::NotFoundError(key);
    }
    return reads_late && before_.contains(key)
               ? before_[key]
               : ForwardingObjectStore::Get(ctx, key, size_bytes_max);
  }
  absl::StatusOr<std::string> GetRange(const CallContext& ctx, const std::string& key,
                                       storage::ByteRange range) override {
    return heeds_ranges ? ForwardingObjectStore::GetRange(ctx, key, range)
                        : absl::DataLossError("the server does not heed ranges");
  }
  absl::StatusOr<ObjectInfo> Stat(const CallContext& ctx, const std::string& key) override {
    auto info = ForwardingObjectStore::Stat(ctx, key);
    if (info.ok()) {
      info->size_bytes += wrong_size;
    }
    return info;
  }
  absl::Status List(const CallContext& ctx, const std::string& prefix,
                    storage::ObjectSink sink) override {
    return ForwardingObjectStore::List(ctx, prefix, [&](ObjectInfo object) {
      object.modified_at = ctx.clock->Now() + ahead;
      return lists_late ? absl::OkStatus() : sink(object);
    });
  }
  absl::Status ListFolder(const CallContext& ctx, const std::string& prefix,
                          storage::ObjectSink sink) override {
    return heeds_delimiter ? ForwardingObjectStore::ListFolder(ctx, prefix, sink)
                           : ForwardingObjectStore::List(ctx, prefix, sink);
  }
  absl::Status Delete(const CallContext& ctx, const std::string& key) override {
    return keeps_deleted ? absl::OkStatus() : ForwardingObjectStore::Delete(ctx, key);
  }

 protected:
  absl::Status Pass(const CallContext& ctx, const storage::PassedCall& call,
                    absl::FunctionRef<absl::Status(const CallContext&)> pass) override {
    ++calls;
    RETURN_IF_ERROR(on_call());
    return denied.contains(call.kind) ? absl::PermissionDeniedError("AccessDenied") : pass(ctx);
  }

 private:
  std::map<std::string, std::string> before_;
};

std::string Rule(absl::string_view what, absl::string_view prefix = "backups/") {
  return absl::StrCat("<LifecycleConfiguration><Rule><ID>old</ID><Filter><Prefix>", prefix,
                      "</Prefix></Filter><Status>Enabled</Status>", what,
                      "</Rule></LifecycleConfiguration>");
}

// A bucket without versions, object lock and rules.
class Bed {
 public:
  Bed() {
    ctx.clock = &clock;
    clock.SetAutoAdvance(true);
    inner.SetBucketDocument(BucketDocument::kVersioning, "<VersioningConfiguration/>");
    inner.SetBucketDocument(BucketDocument::kObjectLock, "");
  }

  std::vector<Finding> Findings() {
    std::vector<Finding> findings;
    status = RunBucketCheckup(ctx, store, options, Random::Real(),
                              [&](const Finding& finding) { findings.push_back(finding); });
    return findings;
  }
  void KeepVersions() {
    inner.SetBucketDocument(
        BucketDocument::kVersioning,
        "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  }
  void LockBucket(int days) {
    KeepVersions();
    inner.SetBucketDocument(
        BucketDocument::kObjectLock,
        absl::StrCat("<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"
                     "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>",
                     days, "</Days></DefaultRetention></Rule></ObjectLockConfiguration>"));
  }
  void AskForLocks(int days) { options.lock_duration = kDay * days; }
  void SetRule(const std::string& xml) { inner.SetBucketDocument(BucketDocument::kLifecycle, xml); }
  // Keys of objects, and of versions and delete markers.
  std::set<std::string> Left() {
    std::set<std::string> keys;
    EXPECT_THAT(storage::ForEachVersion({}, inner, "",
                                        [&](const storage::ObjectVersion& version) {
                                          keys.insert(version.key);
                                          return absl::OkStatus();
                                        }),
                IsOk());
    return keys;
  }

  support::FakeClock clock;
  CallContext ctx;
  support::FakeLockedStore inner{clock};
  RoughStore store{inner};
  BucketCheckupOptions options = {
      .kind = Kind::kS3, .bucket = "bucket", .prefix = kPrefix, .credentials = "access key A"};
  absl::Status status;
};

struct PlantedFault {
  const char* check;
  Severity severity;
  const char* text;  // of the finding, or of what it says to do
  void (*plant)(Bed& bed);
};

const PlantedFault kFaults[] = {
    {"bucket-write", Severity::kFault, "the right s3:PutObject is missing",
     [](Bed& b) { b.store.denied = {CallKind::kPut}; }},
    {"bucket-write", Severity::kFault, "blobs/write",
     [](Bed& b) {
       b.options.kind = Kind::kAzure;
       b.store.denied = {CallKind::kPut};
     }},
    {"bucket-read", Severity::kFault, "the right s3:GetObject is missing",
     [](Bed& b) { b.store.denied = {CallKind::kGet}; }},
    {"bucket-list", Severity::kFault, "the right s3:ListBucket is missing",
     [](Bed& b) { b.store.denied = {CallKind::kList}; }},
    {"bucket-delete", Severity::kFault, "the right s3:DeleteObject is missing: 3 of 3 objects stay",
     [](Bed& b) { b.store.denied = {CallKind::kDelete}; }},
    {"bucket-delete", Severity::kFault, "storage.objects.delete",
     [](Bed& b) {
       b.options.kind = Kind::kGoogle;
       b.store.denied = {CallKind::kDelete};
     }},
    {"bucket-versions", Severity::kUnknown, "s3:GetBucketVersioning",
     [](Bed& b) { b.store.denied = {CallKind::kGetVersioned}; }},
    {"bucket-lifecycle", Severity::kUnknown, "s3:GetLifecycleConfiguration",
     [](Bed& b) { b.store.denied = {CallKind::kGetVersioned}; }},
    {"bucket-lock", Severity::kUnknown, "s3:GetBucketObjectLockConfiguration",
     [](Bed& b) { b.store.denied = {CallKind::kGetVersioned}; }},
    {"bucket-write", Severity::kFault, "no such bucket",
     [](Bed& b) {
       b.store.on_call = [] { return absl::FailedPreconditionError("no such bucket"); };
     }},
    {"bucket-write", Severity::kNote, "for reading only",
     [](Bed& b) { b.options.is_read_only = true; }},
    {"bucket-read", Severity::kFault, "a read after a write finds nothing",
     [](Bed& b) { b.store.finds_new = false; }},
    {"bucket-read", Severity::kFault, "a read after a write gives other bytes",
     [](Bed& b) { b.store.reads_late = true; }},
    {"bucket-condition", Severity::kWarning, "the condition is overlooked",
     [](Bed& b) { b.store.overlooks_condition = true; }},
    {"bucket-condition", Severity::kNote, "does not know conditional writes",
     [](Bed& b) { b.store.knows_condition = false; }},
    {"bucket-range", Severity::kFault, "does not heed ranges",
     [](Bed& b) { b.store.heeds_ranges = false; }},
    {"bucket-stat", Severity::kFault, "the size of an object is wrong",
     [](Bed& b) { b.store.wrong_size = 1; }},
    {"bucket-list", Severity::kFault, "does not show what was just written",
     [](Bed& b) { b.store.lists_late = true; }},
    {"bucket-list", Severity::kFault, "in the wrong folder",
     [](Bed& b) { b.store.heeds_delimiter = false; }},
    {"bucket-clock", Severity::kFault, "its clock is 2h ahead of this machine's",
     [](Bed& b) { b.store.ahead = absl::Hours(2); }},
    {"bucket-clock", Severity::kNote, "its clock is 29s behind this machine's",
     [](Bed& b) { b.store.ahead = absl::Seconds(-30); }},
    {"bucket-clock", Severity::kUnknown, "does not say when",
     [](Bed& b) { b.store.ahead = -absl::InfiniteDuration(); }},
    {"bucket-class", Severity::kFault, "the object is archived",
     [](Bed& b) { b.store.archives = true; }},
    {"bucket-delete", Severity::kFault, "still there after it was deleted",
     [](Bed& b) { b.store.keeps_deleted = true; }},
    {"bucket-versions", Severity::kWarning, "no rule does", [](Bed& b) { b.KeepVersions(); }},
    {"bucket-versions", Severity::kGood,
     "until a lifecycle rule removes them, as \"old\" does after 30 days",
     [](Bed& b) {
       b.KeepVersions();
       b.SetRule(
           Rule("<NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays>"
                "</NoncurrentVersionExpiration>"));
     }},
    {"bucket-lifecycle", Severity::kFault, "\"old\" removes objects by their age",
     [](Bed& b) { b.SetRule(Rule("<Expiration><Days>35</Days></Expiration>")); }},
    {"bucket-lifecycle", Severity::kFault, "\"old\" archives objects by their age",
     [](Bed& b) {
       b.SetRule(Rule("<Transition><StorageClass>GLACIER</StorageClass></Transition>"));
     }},
    {"bucket-lifecycle", Severity::kGood, "no lifecycle rule",
     [](Bed& b) { b.SetRule(Rule("<Expiration><Days>35</Days></Expiration>", "logs/")); }},
    {"bucket-lifecycle", Severity::kUnknown, "az storage account management-policy show",
     [](Bed& b) {
       b.options.kind = Kind::kAzure;
       b.SetRule("");
       b.store.denied = {CallKind::kGetVersioned};
     }},
    {"bucket-lock", Severity::kFault,
     "the bucket has no object lock, less than expected: backups ask for locks of 30 days",
     [](Bed& b) { b.AskForLocks(30); }},
    {"bucket-lock", Severity::kWarning, "7 days, GOVERNANCE, more than expected",
     [](Bed& b) { b.LockBucket(7); }},
    {"bucket-lock", Severity::kWarning, "7 days, GOVERNANCE, less than expected",
     [](Bed& b) {
       b.LockBucket(7);
       b.AskForLocks(30);
     }},
    {"bucket-lock", Severity::kWarning, "90 days, GOVERNANCE, more than expected",
     [](Bed& b) {
       b.LockBucket(90);
       b.AskForLocks(30);
     }},
    {"bucket-delete", Severity::kGood, "older versions of what was tried may stay: ",
     [](Bed& b) {
       b.LockBucket(7);
       b.inner.SetDefaultRetention("COMPLIANCE", kDay * 7);
     }},
};

TEST(BucketCheckupTest, EachPlantedFaultIsFoundByName) {
  for (const PlantedFault& fault : kFaults) {
    Bed bed;
    fault.plant(bed);
    std::string all;
    bool is_found = false;
    for (const Finding& finding : bed.Findings()) {
      const std::string text = absl::StrCat(finding.text, "\n", finding.remediation);
      absl::StrAppend(&all, finding.check, " ", ToString(finding.severity), ": ", text, "\n");
      is_found |= finding.check == fault.check && finding.severity == fault.severity &&
                  absl::StrContains(text, fault.text);
    }
    EXPECT_TRUE(is_found) << fault.check << " " << fault.text << ":\n" << all;
    EXPECT_THAT(bed.status, IsOk());
  }
}

TEST(BucketCheckupTest, AGoodStoreIsGoodAndTheDocumentHasEachCheck) {
  Bed bed;
  const std::string document = support::ReadSource("docs/doctor.md");
  std::vector<std::string> names;
  for (const Finding& finding : bed.Findings()) {
    EXPECT_EQ(finding.severity, Severity::kGood) << finding.check << ": " << finding.text;
    EXPECT_EQ(finding.subject, "fake bucket with object lock");
    EXPECT_TRUE(absl::StrContains(document, absl::StrCat("\n| `", finding.check, "` | ")))
        << finding.check;
    names.push_back(finding.check);
  }
  EXPECT_THAT(names, ElementsAre("bucket-credentials", "bucket-write", "bucket-read",
                                 "bucket-class", "bucket-condition", "bucket-range", "bucket-stat",
                                 "bucket-list", "bucket-clock", "bucket-delete", "bucket-lifecycle",
                                 "bucket-versions", "bucket-lock"));
}

TEST(BucketCheckupTest, NothingIsLeftWhicheverCallFailsOrIsTheLastBeforeASignal) {
  for (const bool is_signal : {false, true}) {
    int calls = 100;
    for (int n = 1; n <= calls; ++n) {
      Bed bed;
      bed.KeepVersions();
      std::stop_source stop;
      bed.ctx.stop = stop.get_token();
      bed.store.on_call = [&]() -> absl::Status {
        if (bed.store.calls != n) {
          return absl::OkStatus();
        }
        return is_signal ? (stop.request_stop(), absl::OkStatus()) : absl::UnavailableError("once");
      };
      const std::vector<Finding> findings = bed.Findings();
      calls = n == 1 ? 0 : calls;
      calls = std::max(calls, bed.store.calls);
      EXPECT_THAT(bed.Left(), IsEmpty()) << "call " << n << " of " << bed.store.calls;
      EXPECT_EQ(absl::IsCancelled(bed.status), is_signal && bed.store.calls >= n) << bed.status;
    }
    EXPECT_GT(calls, 15);
  }
}

TEST(BucketCheckupTest, WhatAKilledRunLeftGoesOnceItIsAnHourOld) {
  Bed bed;
  const auto key = [&](absl::Duration age) {
    return absl::StrCat(
        "doctor/bucket-",
        absl::FormatTime("%Y%m%dT%H%M%SZ", bed.clock.Now() - age, absl::UTCTimeZone()),
        "-0123456789abcdef/object");
  };
  const std::string young = key(absl::Minutes(59));
  for (const std::string& one :
       {key(absl::Minutes(61)), young, std::string("doctor/0123"), std::string("config")}) {
    EXPECT_THAT(bed.inner.Put({}, one, "x", {}), IsOk());
  }
  std::string said;
  for (const Finding& finding : bed.Findings()) {
    said += finding.check == "bucket-leftovers" ? finding.text : "";
  }
  EXPECT_THAT(said, HasSubstr("left 1 objects, which are removed"));
  std::set<std::string> objects;
  for (const auto& [name, bytes] : bed.inner.objects()) {
    objects.insert(name);
  }
  EXPECT_THAT(objects, ElementsAre("config", "doctor/0123", young));
}

TEST(BucketCheckupTest, ADirectoryHasNoRulesAndNothingIsUnknownOfIt) {
  Bed bed;
  bed.options.kind = Kind::kDirectory;
  support::FakeObjectStore directory;
  RoughStore store(directory);
  std::vector<Severity> severities;
  EXPECT_THAT(RunBucketCheckup(bed.ctx, store, bed.options, Random::Real(),
                               [&](const Finding& one) { severities.push_back(one.severity); }),
              IsOk());
  EXPECT_THAT(severities, ::testing::Each(Severity::kGood));
  EXPECT_THAT(directory.objects(), IsEmpty());
}

// deploy/buckets/s3-lifecycle.json as XML, which is the form that a bucket answers in.
std::string AsXml(const Json& value) {
  std::string xml;
  for (const auto& [name, field] : value.items()) {
    for (const Json& one : field.is_array() ? field : Json::array({field})) {
      absl::StrAppend(&xml, "<", name == "Rules" ? "Rule" : name, ">",
                      one.is_object()   ? AsXml(one)
                      : one.is_string() ? one.get<std::string>()
                                        : one.dump(),
                      "</", name == "Rules" ? "Rule" : name, ">");
    }
  }
  return xml;
}

TEST(BucketCheckupTest, TheRulesOfDeployAreOnesThatItTakes) {
  const auto json = ParseJson(support::ReadSource("deploy/buckets/s3-lifecycle.json"));
  ASSERT_THAT(json.status(), IsOk());
  const auto rules = storage::ParseLifecycle(
      absl::StrCat("<LifecycleConfiguration>", AsXml(*json), "</LifecycleConfiguration>"));
  ASSERT_THAT(rules.status(), IsOk());
  std::optional<int64_t> days;
  for (const storage::LifecycleRule& rule : *rules) {
    EXPECT_EQ(rule.prefix, "PREFIX/plugins/csi-delta/");
    EXPECT_FALSE(rule.expires_current || rule.archives_current) << rule.id;
    days = rule.noncurrent_days.has_value() ? rule.noncurrent_days : days;
  }
  EXPECT_EQ(days, 30);
  EXPECT_EQ(rules->size(), 3u);
}

}  // namespace
}  // namespace csidelta::doctor::bucket_checkup_test
