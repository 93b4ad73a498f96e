#include "doctor/bucket_checkup.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/human_text.h"
#include "base/status_macros.h"
#include "doctor/checks.h"
#include "storage/bucket_rules.h"

namespace csidelta::doctor {
namespace {

using storage::BucketRules;
using storage::LifecycleRule;
using storage::ObjectInfo;
using storage::ObjectLockRule;
using Kind = storage::Location::Kind;

constexpr char kFolder[] = "doctor/";  // no name of restic's
constexpr absl::string_view kScratchMark = "doctor/bucket-";
constexpr char kTimeForm[] = "%E4Y%m%dT%H%M%SZ";
constexpr std::size_t kTimeBytes = 16;
constexpr absl::Duration kLeftAfter = absl::Hours(1);
constexpr absl::Duration kStepTimeMax = absl::Seconds(20);
constexpr std::size_t kRemovedMax = 1000;  // in one run
constexpr int64_t kObjectBytesMax = 1024;
constexpr char kObject[] = "object";
constexpr char kBelowFolder[] = "folder/object";
constexpr char kFirstBytes[] = "csi-delta doctor wrote this first, and removes it";
constexpr char kSecondBytes[] = "then csi-delta doctor wrote this over it";
constexpr storage::ByteRange kRange = {.offset_bytes = 5, .length_bytes = 16};
constexpr char kAddress[] =
    "use the address of the store itself, without a cache, a replica or a gateway that changes "
    "requests or answers";
constexpr char kOneAtATime[] = "make each repository from one machine alone";

enum Right { kWrite, kRead, kList, kDelete, kRights };
// As each kind of store names them, in the order of Location::Kind.
constexpr absl::string_view kRightNames[][kRights] = {
    {"to write into the directory", "to read in the directory", "to read the directory",
     "to write into the directory"},
    {"s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:DeleteObject"},
    {"blobs/write (of a SAS: c and w)", "blobs/read (of a SAS: r)", "blobs/read (of a SAS: l)",
     "blobs/delete (of a SAS: d)"},
    {"storage.objects.create, and storage.objects.delete to write over objects",
     "storage.objects.get", "storage.objects.list", "storage.objects.delete"}};

class BucketCheckup {
 public:
  BucketCheckup(const CallContext& ctx, storage::ObjectStore& store,
                const BucketCheckupOptions& options, Random& random, const FindingSink& sink)
      : ctx_(ctx), store_(store), options_(options), sink_(sink) {
    scratch_ = absl::StrCat(kScratchMark,
                            absl::FormatTime(kTimeForm, ctx.clock->Now(), absl::UTCTimeZone()), "-",
                            absl::Hex(random.Below(uint64_t{1} << 62), absl::kZeroPad16), "/");
  }

  absl::Status Run();

 private:
  void FindLeftovers();
  bool CheckWrite();
  void CheckRead();
  void CheckCondition();
  void CheckParts();
  void CheckList(bool has_written);
  void CheckClock(absl::Time at);
  void CheckDelete();
  void CheckVersions();
  void CheckLock();

  CallContext Step() const { return ctx_.WithTimeout(kStepTimeMax); }
  std::string Key(absl::string_view name) const { return absl::StrCat(scratch_, name); }
  absl::Status Put(absl::string_view name, absl::string_view bytes, bool if_absent = false);
  // Of this run, or left by another.
  bool IsRemovable(absl::string_view key) const;
  // The first error.
  absl::Status RemoveObjects(const CallContext& ctx);
  // What stays, or "".
  std::string RemoveVersions(const CallContext& ctx);

  void Report(absl::string_view check, Severity severity, std::string text,
              std::string remediation = "") {
    sink_({severity, absl::StrCat("bucket-", check), store_.Describe(), std::move(text),
           std::move(remediation)});
  }
  void Good(absl::string_view check, std::string text) {
    Report(check, Severity::kGood, std::move(text));
  }
  void Fault(absl::string_view check, std::string text, std::string remediation = kAddress) {
    Report(check, Severity::kFault, std::move(text), std::move(remediation));
  }
  // Whether `status` is OK; else a fault of `doing`, which needs `right`.
  bool Works(absl::string_view check, const absl::Status& status, absl::string_view doing,
             Right right);
  // The same; then whether the answer is right.
  void Expect(absl::string_view check, const absl::Status& status, absl::string_view doing,
              Right right, bool is_right, std::string wrong, std::string good) {
    if (Works(check, status, doing, right)) {
      is_right ? Good(check, std::move(good)) : Fault(check, std::move(wrong));
    }
  }
  // Whether the bucket told its rule; else what is unknown, and which right tells it.
  bool IsTold(absl::string_view check, const absl::Status& status, absl::string_view right);

  const CallContext& ctx_;
  storage::ObjectStore& store_;
  const BucketCheckupOptions& options_;
  const FindingSink& sink_;
  std::string scratch_;
  BucketRules rules_;
  std::set<std::string> keys_;  // to be removed: they may have been written
  bool versions_stay_ = false;
  absl::string_view content_;  // of the object
  absl::Time put_from_;        // Between these the object was written last, by the local clock.
  absl::Time put_until_;
};

absl::Status BucketCheckup::Run() {
  Good("credentials", options_.credentials);
  rules_ = storage::ReadBucketRules(Step(), store_);
  FindLeftovers();
  const bool can_write = CheckWrite();
  if (can_write) {
    CheckRead();
    CheckCondition();
    CheckParts();
  }
  CheckList(can_write);
  if (can_write) {
    CheckDelete();
  }
  if (!keys_.empty() ||
      versions_stay_) {  // After a failure or a signal: in time that is left for that.
    const CallContext last = FinalContext(ctx_);
    RemoveObjects(last).IgnoreError();
    RemoveVersions(last);
  }
  RETURN_IF_ERROR(ctx_.Check());
  CheckVersions();
  CheckLock();
  return absl::OkStatus();
}

bool BucketCheckup::Works(absl::string_view check, const absl::Status& status,
                          absl::string_view doing, Right right) {
  const absl::string_view name = kRightNames[static_cast<int>(options_.kind)][right];
  if (absl::IsPermissionDenied(status)) {
    Fault(check,
          absl::StrCat(doing, " is refused, the right ", name, " is missing: ", status.message()),
          absl::StrCat("give the credentials the right ", name));
  } else if (!status.ok() && ctx_.Check().ok()) {  // Else it is the end of the run, and no fault.
    Fault(check, absl::StrCat(doing, " fails: ", status.message()),
          "do what this says, or correct address, credentials, network or proxy");
  }
  return status.ok();
}

absl::Status BucketCheckup::Put(absl::string_view name, absl::string_view bytes, bool if_absent) {
  keys_.insert(Key(name));  // A failure does not tell whether it is stored.
  return store_.Put(Step(), Key(name), bytes, {.if_absent = if_absent});
}

bool BucketCheckup::IsRemovable(absl::string_view key) const {
  absl::Time begun;
  return absl::StartsWith(key, scratch_) ||
         (absl::ConsumePrefix(&key, kScratchMark) &&
          absl::ParseTime(kTimeForm, key.substr(0, kTimeBytes), &begun, nullptr) &&
          begun + kLeftAfter < ctx_.clock->Now());
}

void BucketCheckup::FindLeftovers() {
  const auto take = [&](const ObjectInfo& object) {
    if (IsRemovable(object.key) && keys_.size() < kRemovedMax) {
      keys_.insert(object.key);
    }
    return absl::OkStatus();
  };
  // An error is the finding of CheckList().
  if (!options_.is_read_only && store_.List(Step(), kFolder, take).ok() && !keys_.empty()) {
    Report("leftovers", Severity::kNote,
           absl::StrCat("an earlier run was killed and left ", keys_.size(),
                        " objects, which are removed with those of this one"));
  }
}

bool BucketCheckup::CheckWrite() {
  if (options_.is_read_only) {
    Report("write", Severity::kNote, "it is opened for reading only, so nothing is written");
  } else if (Works("write", Put(kBelowFolder, kFirstBytes), "writing", kWrite)) {
    Good("write", "objects can be written");
    return true;
  }
  return false;
}

void BucketCheckup::CheckRead() {
  for (const char* bytes : {kFirstBytes, kSecondBytes}) {
    content_ = bytes;
    put_from_ = ctx_.clock->Now();
    const absl::Status put = Put(kObject, content_);
    put_until_ = ctx_.clock->Now();
    if (!Works("write", put, "writing over an object", kWrite)) {
      return;
    }
    const absl::StatusOr<std::string> read = store_.Get(Step(), Key(kObject), kObjectBytesMax);
    if (absl::IsNotFound(read.status()) || (read.ok() && *read != content_)) {
      return Fault("read", absl::StrCat("a read after a write ",
                                        read.ok() ? "gives other bytes" : "finds nothing",
                                        ": backups would rely on old objects"));
    }
    const bool is_archived = absl::StrContains(read.status().message(), "archived");
    if (!Works(is_archived ? "class" : "read", read.status(), "reading", kRead)) {
      return;
    }
  }
  Good("read", "reads give what was written last");
  Good("class", absl::StrCat("objects of ",
                             options_.storage_class.empty() ? "the bucket's default storage class"
                                                            : options_.storage_class,
                             " can be read at once"));
}

void BucketCheckup::CheckCondition() {
  constexpr char kName[] = "condition";
  absl::Status put = Put(kName, kFirstBytes, /*if_absent=*/true);
  const bool is_new = put.ok();
  if (is_new) {
    put = Put(kName, kSecondBytes, /*if_absent=*/true);
  }
  if (absl::IsUnimplemented(put)) {
    Report(kName, Severity::kNote,
           absl::StrCat("the store does not know conditional writes: ", put.message()),
           kOneAtATime);
  } else if (is_new && put.ok()) {
    Report(kName, Severity::kWarning,
           "a conditional write over an object was accepted: the condition is overlooked, and of "
           "two clients that make one repository at once the later one wins",
           kOneAtATime);
  } else if (is_new && absl::IsAlreadyExists(put)) {
    Good(kName, "a conditional write over an object is refused");
  } else {
    Works(kName, put, "a conditional write", kWrite);
  }
}

void BucketCheckup::CheckParts() {
  const absl::StatusOr<std::string> part = store_.GetRange(Step(), Key(kObject), kRange);
  Expect("range", part.status(), "reading a part of an object", kRead,
         part.ok() && *part == content_.substr(kRange.offset_bytes, kRange.length_bytes),
         "a part of an object has other bytes than the whole", "parts of objects can be read");
  const absl::StatusOr<ObjectInfo> info = store_.Stat(Step(), Key(kObject));
  Expect("stat", info.status(), "asking for the size of an object", kRead,
         info.ok() && info->size_bytes == std::ssize(content_), "the size of an object is wrong",
         "sizes of objects are right");
}

void BucketCheckup::CheckList(bool has_written) {
  const std::string prefix = has_written ? scratch_ : std::string(kFolder);
  std::set<std::string> seen;  // those of the folder itself with "in " before them
  ObjectInfo own;
  absl::Status status = store_.List(Step(), prefix, [&](const ObjectInfo& object) {
    own = object.key == Key(kObject) ? object : own;
    seen.insert(object.key);
    return absl::OkStatus();
  });
  if (status.ok()) {
    status = store_.ListFolder(Step(), prefix, [&](const ObjectInfo& object) {
      seen.insert(absl::StrCat("in ", object.key));
      return absl::OkStatus();
    });
  }
  const auto shows = [&](absl::string_view in, absl::string_view name) {
    return seen.contains(absl::StrCat(in, Key(name)));
  };
  Expect("list", status, "listing", kList,
         !has_written || (shows("", kObject) && shows("", kBelowFolder) && shows("in ", kObject) &&
                          shows("in ", "folder/") && !shows("in ", kBelowFolder)),
         "a listing does not show what was just written, or shows it in the wrong folder: prune "
         "deletes what a listing omits",
         "listings show what is there");
  if (!own.key.empty()) {
    CheckClock(own.modified_at);
  }
}

void BucketCheckup::CheckClock(absl::Time at) {
  if (at == absl::InfinitePast()) {
    return Report("clock", Severity::kUnknown, "the store does not say when objects were written",
                  "compare its clock with that of this machine yourself");
  }
  // The store may cut its time to whole seconds.
  const absl::Duration skew = std::max(at - put_until_, absl::ZeroDuration()) -
                              std::max(put_from_ - at - absl::Seconds(1), absl::ZeroDuration());
  const absl::Duration distance = absl::Trunc(absl::AbsDuration(skew), absl::Seconds(1));
  if (distance <= kSkewNoted) {
    return Good("clock", "its clock agrees with that of this machine");
  }
  Report("clock", distance > kSkewMax ? Severity::kFault : Severity::kNote,
         absl::StrCat("its clock is ", absl::FormatDuration(distance),
                      skew > absl::ZeroDuration() ? " ahead of" : " behind", " this machine's"),
         kClockRemediation);
}

absl::Status BucketCheckup::RemoveObjects(const CallContext& ctx) {
  absl::Status first;
  for (auto key = keys_.begin(); key != keys_.end();) {
    const absl::Status deleted = store_.Delete(ctx, *key);
    key = deleted.ok() ? keys_.erase(key) : std::next(key);
    first.Update(deleted);
  }
  return first;
}

std::string BucketCheckup::RemoveVersions(const CallContext& ctx) {
  std::vector<storage::ObjectVersion> versions;
  const auto take = [&](const storage::ObjectVersion& version) {
    if (IsRemovable(version.key) && versions.size() < kRemovedMax) {
      versions.push_back(version);
    }
    return absl::OkStatus();
  };
  const auto& keeps = rules_.keeps_versions;
  if (keeps.ok() ? !*keeps : absl::IsUnimplemented(keeps.status())) {
    return "";
  }
  absl::Status status = storage::ForEachVersion(ctx, store_, kFolder, take);
  for (const storage::ObjectVersion& version : versions) {
    status.Update(store_.DeleteVersion(ctx, version.key, version.id));
  }
  versions_stay_ = !status.ok();
  return versions_stay_
             ? absl::StrCat("; older versions of what was tried may stay: ", status.message())
             : "";
}

void BucketCheckup::CheckDelete() {
  const std::size_t count = keys_.size();
  absl::Status deleted = RemoveObjects(Step());
  deleted = Annotate(deleted, absl::StrCat(keys_.size(), " of ", count, " objects stay below ",
                                           store_.Describe(), "/", scratch_));
  if (!Works("delete", deleted, "deleting", kDelete)) {
    return;
  }
  if (store_.Stat(Step(), Key(kObject)).ok()) {
    keys_.insert(Key(kObject));
    Fault("delete", "an object is still there after it was deleted");
  } else {
    Good("delete", absl::StrCat("what was deleted is gone", RemoveVersions(Step())));
  }
}

bool BucketCheckup::IsTold(absl::string_view check, const absl::Status& status,
                           absl::string_view right) {
  if (options_.kind == Kind::kDirectory) {
    Good(check, "a directory has no such rules");
  } else if (!status.ok()) {
    Report(check, Severity::kUnknown, absl::StrCat("not known: ", status.message()),
           options_.kind == Kind::kS3
               ? absl::StrCat("give the credentials the right ", right, ", or look yourself")
           : options_.kind == Kind::kAzure
               ? "az storage account management-policy show, and blob-service-properties show"
               : absl::StrCat("gcloud storage buckets describe gs://", options_.bucket));
  }
  return status.ok() && options_.kind != Kind::kDirectory;
}

void BucketCheckup::CheckVersions() {
  const bool tells = IsTold("lifecycle", rules_.lifecycle.status(), "s3:GetLifecycleConfiguration");
  std::string removed = tells ? ", and no rule does" : "";
  bool is_good = tells;
  for (const LifecycleRule& rule : tells ? *rules_.lifecycle : std::vector<LifecycleRule>()) {
    if (Concerns(rule, options_.prefix) && rule.noncurrent_days.has_value()) {
      removed = absl::StrCat(", as \"", CutText(rule.id, 100), "\" does after ",
                             *rule.noncurrent_days, " days");
    }
    if (std::string harm = HarmOf(rule); Concerns(rule, options_.prefix) && !harm.empty()) {
      is_good = false;
      Fault("lifecycle", std::move(harm), "take the repository out of the rule");
    }
  }
  if (is_good) {
    Good("lifecycle", "no lifecycle rule removes or archives current objects here");
  }
  if (!IsTold("versions", rules_.keeps_versions.status(), "s3:GetBucketVersioning")) {
    return;
  }
  if (!*rules_.keeps_versions) {
    return Good("versions", "the bucket keeps no versions: deleted objects are gone");
  }
  Report("versions", absl::StartsWith(removed, ", as") ? Severity::kGood : Severity::kWarning,
         absl::StrCat("deleted objects stay as older versions until a lifecycle rule removes them",
                      removed),
         "deploy/buckets/ has rules for this store");
}

void BucketCheckup::CheckLock() {
  if (!IsTold("lock", rules_.object_lock.status(), "s3:GetBucketObjectLockConfiguration")) {
    return;
  }
  const ObjectLockRule& rule = *rules_.object_lock;
  const int64_t asked_days = options_.lock_duration / absl::Hours(24);
  const std::string found =
      !rule.is_enabled ? "the bucket has no object lock"
      : rule.mode.empty()
          ? "the bucket has object lock, without a default retention"
          : absl::StrCat("the bucket's default retention is ", rule.days, " days, ", rule.mode);
  if (rule.is_enabled ? rule.mode.empty() || rule.days == asked_days : asked_days == 0) {
    return Good("lock", found);
  }
  Report("lock", rule.is_enabled ? Severity::kWarning : Severity::kFault,
         absl::StrCat(found, rule.days < asked_days ? ", less" : ", more",
                      " than expected: backups ask for locks of ", asked_days, " days"),
         "set s3.object-lock-days, or immutability of the data mover, to what the bucket has, and "
         "run csi-delta extend-locks each day");
}

}  // namespace

std::string NameOf(const LifecycleRule& rule) {
  return absl::StrCat("the lifecycle rule \"", CutText(rule.id, 100), "\"");
}

bool Concerns(const LifecycleRule& rule, absl::string_view folder) {
  return absl::StartsWith(folder, rule.prefix) || absl::StartsWith(rule.prefix, folder);
}

std::string HarmOf(const LifecycleRule& rule) {
  if (!rule.expires_current && !rule.archives_current) {
    return "";
  }
  return absl::StrCat(NameOf(rule), rule.is_narrower ? " may " : " ",
                      rule.expires_current ? "remove" : "archive", rule.is_narrower ? "" : "s",
                      " objects by their age: incremental backups need old ones");
}

absl::Status RunBucketCheckup(const CallContext& ctx, storage::ObjectStore& store,
                              const BucketCheckupOptions& options, Random& random,
                              const FindingSink& sink) {
  return BucketCheckup(ctx, store, options, random, sink).Run();
}

}  // namespace csidelta::doctor
