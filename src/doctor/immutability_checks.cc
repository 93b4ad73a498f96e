#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/human_text.h"
#include "base/rfc3339.h"
#include "datamover/location_settings.h"
#include "datamover/repository_access.h"
#include "doctor/checks.h"
#include "objects/backup_storage_location.h"
#include "objects/protected_volume.h"
#include "storage/bucket_rules.h"
#include "velero/data_reference.h"

namespace csidelta::doctor {
namespace {

using objects::JobObjectLock;
using storage::BucketRules;
using storage::LifecycleRule;
using storage::ObjectLockRule;

constexpr absl::Duration kRulesTimeMax = absl::Seconds(10);
constexpr absl::Duration kDay = absl::Hours(24);

// What one location's settings, bucket and records say of its object locks.
class LocationLocks {
 public:
  LocationLocks(CheckContext& context, const objects::BackupStorageLocation& location,
                std::optional<JobObjectLock> asked, const BucketRules& rules)
      : context_(context),
        location_(location),
        subject_(SubjectOf("location", location)),
        asked_(std::move(asked)),
        rules_(rules) {}

  void Report();

 private:
  bool IsLocking() const { return rules_.object_lock.ok() && rules_.object_lock->is_enabled; }
  void CheckObjectLockRule();
  void CheckVersioningRule();
  void CheckLifecycleRules();
  void CheckLifecycleRule(const LifecycleRule& rule);
  void CheckLockRecords();
  void ReportUnknown(absl::string_view what, const absl::Status& why, absl::string_view right);
  void Fault(std::string text, std::string remediation) {
    is_good_ = false;
    context_.Fault(subject_, std::move(text), std::move(remediation));
  }
  void Warn(std::string text, std::string remediation) {
    is_good_ = false;
    context_.Warn(subject_, std::move(text), std::move(remediation));
  }

  CheckContext& context_;
  const objects::BackupStorageLocation& location_;
  const std::string subject_;
  const std::optional<JobObjectLock> asked_;
  const BucketRules& rules_;
  bool is_good_ = true;
  std::vector<std::string> good_;
};

void LocationLocks::Report() {
  CheckObjectLockRule();
  if (asked_.has_value() || IsLocking()) {
    CheckVersioningRule();
  }
  CheckLifecycleRules();
  if (asked_.has_value()) {
    CheckLockRecords();
  }
  if (is_good_) {
    context_.Good(subject_,
                  good_.empty() ? "nothing asks for object locks" : absl::StrJoin(good_, "; "));
  }
}

// A right or a feature that is missing is unknown, and never good.
void LocationLocks::ReportUnknown(absl::string_view what, const absl::Status& why,
                                  absl::string_view right) {
  if (absl::IsUnimplemented(why) && !asked_.has_value()) {
    return;  // Not a bucket.
  }
  is_good_ = false;
  context_.Unknown(
      subject_, Annotate(why, absl::StrCat("not known: ", what)),
      absl::StrCat("give the location's credentials the right ", right, ", or look yourself"));
}

void LocationLocks::CheckObjectLockRule() {
  if (!rules_.object_lock.ok()) {
    return ReportUnknown("whether the bucket has object lock", rules_.object_lock.status(),
                         "s3:GetBucketObjectLockConfiguration");
  }
  const ObjectLockRule& rule = *rules_.object_lock;
  const std::string by_default =
      rule.mode.empty() ? "no default retention"
                        : absl::StrCat("a default retention of ", rule.days, " days, ", rule.mode);
  if (asked_.has_value() && !rule.is_enabled) {
    Fault("immutability is set, but the bucket has no object lock: nothing is locked",
          "back up to a bucket that was made with object lock, or remove the setting");
  } else if (!asked_.has_value() && rule.is_enabled) {
    Warn(absl::StrCat("the bucket has object lock and ", by_default,
                      ", but no lock is extended: later backups rely on objects that can be "
                      "deleted once their lock has ended"),
         absl::StrCat("set backupStorageLocations.", location_.name(),
                      ".immutability, or run csi-delta extend-locks each day"));
  } else if (rule.is_enabled) {
    good_.push_back(absl::StrCat("the bucket has object lock and ", by_default));
  }
}

void LocationLocks::CheckVersioningRule() {
  if (!rules_.keeps_versions.ok()) {
    ReportUnknown("whether the bucket keeps versions", rules_.keeps_versions.status(),
                  "s3:GetBucketVersioning");
  } else if (!*rules_.keeps_versions) {
    Fault("the bucket does not keep versions: overwritten and deleted objects are lost",
          "enable versioning of the bucket");
  }
}

void LocationLocks::CheckLifecycleRules() {
  if (!rules_.lifecycle.ok()) {
    return ReportUnknown("which lifecycle rules the bucket has", rules_.lifecycle.status(),
                         "s3:GetLifecycleConfiguration");
  }
  const std::string folder = absl::StrCat(location_.prefix(), location_.prefix().empty() ? "" : "/",
                                          velero::kRepositoryRoot);
  bool removes_noncurrent = false;
  for (const LifecycleRule& rule : *rules_.lifecycle) {
    if (Concerns(rule, folder)) {
      removes_noncurrent = removes_noncurrent || rule.noncurrent_days.has_value();
      CheckLifecycleRule(rule);
    }
  }
  if (rules_.keeps_versions.ok() && *rules_.keeps_versions && !removes_noncurrent) {
    Warn("no lifecycle rule removes noncurrent versions, so you pay for deleted data for ever",
         "add a rule with NoncurrentVersionExpiration");
  }
}

void LocationLocks::CheckLifecycleRule(const LifecycleRule& rule) {
  if (std::string harm = HarmOf(rule); !harm.empty()) {
    Fault(std::move(harm),
          absl::StrCat("take the folder ", velero::kRepositoryRoot, " out of the rule"));
  }
  if (rule.noncurrent_days.has_value()) {
    good_.push_back(absl::StrCat(
        NameOf(rule), " removes versions ", *rule.noncurrent_days,
        " days after they were deleted or written over, once they are not locked; so long an "
        "attack can be undone"));
  }
}

void LocationLocks::CheckLockRecords() {
  const absl::Time now = context_.ctx().clock->Now();
  absl::Time first = absl::InfiniteFuture();
  std::vector<std::string> unrenewed;
  for (const auto& record : context_.List<objects::ProtectedVolume>(location_.namespace_name())) {
    const objects::ProtectedVolumeSpec spec = record.spec();
    const objects::ProtectedVolumeStatus status = record.status();
    if (spec.location != location_.name() || !status.last_good.has_value()) {
      continue;
    }
    const std::string volume = absl::StrCat("PVC ", spec.pvc_namespace, "/", spec.pvc);
    const auto locks = status.verification.value_or(objects::Verification()).locks;
    if (locks.has_value() && !locks->finding.empty()) {
      Fault(absl::StrCat(volume, ": ", CutText(locks->finding, 300)),
            "give the location's credentials the rights s3:PutObjectRetention, "
            "s3:GetObjectRetention and s3:ListBucketVersions, or do what this says");
    }
    if (!locks.has_value() || !locks->locked_until.has_value()) {
      unrenewed.push_back(volume);
    } else {
      first = std::min(first, *locks->locked_until);
    }
  }
  if (!unrenewed.empty()) {
    Warn(absl::StrCat("until when objects are locked is not known, as their locks were not renewed "
                      "yet: ",
                      Listed(unrenewed)),
         "wait for the daily check of these volumes");
  }
  if (first < now + kDay * asked_->days / 4) {
    Fault(absl::StrCat("the first lock of an object that backups need ends at ",
                       FormatRfc3339Seconds(first), ": the renewal is late"),
          "see why the daily checks are not made: csi-delta status, and Events of the "
          "ProtectedVolumes");
  } else if (first < absl::InfiniteFuture()) {
    good_.push_back(absl::StrCat("all that backups need is locked until ",
                                 FormatRfc3339Seconds(first), " at least"));
  }
}

BucketRules Unreadable(const absl::Status& why) {
  return {.keeps_versions = why, .object_lock = why, .lifecycle = why};
}

}  // namespace

void CheckLocationImmutable(CheckContext& context) {
  const absl::StatusOr<datamover::MoverSettings> settings = ReadSettings(context);
  for (const auto& location : context.ListInVeleros<objects::BackupStorageLocation>()) {
    if (!location.Validate().ok()) {
      continue;  // CheckLocationProvider says why.
    }
    const absl::StatusOr<datamover::RepositoryAccess> access =
        datamover::OpenLocationAccess(context.ctx(), context.cache().api(), location);
    if (!context.IsKnown(SubjectOf("location", location), access.status())) {
      continue;
    }
    const std::optional<JobObjectLock> asked =
        settings.ok() ? datamover::ForLocation(*settings, location.name()).immutability
                      : std::nullopt;
    const absl::Status lockable =
        asked.has_value() ? datamover::CheckObjectLocks(location) : absl::OkStatus();
    if (!lockable.ok()) {
      context.Fault(SubjectOf("location", location), std::string(lockable.message()),
                    "do what this says");
      continue;
    }
    const absl::StatusOr<std::unique_ptr<storage::OpenedStore>> opened =
        context.options().open_store(*access);
    const BucketRules rules =
        opened.ok()
            ? storage::ReadBucketRules(context.ctx().WithTimeout(kRulesTimeMax), (*opened)->store())
            : Unreadable(opened.status());
    LocationLocks(context, location, asked, rules).Report();
  }
}

}  // namespace csidelta::doctor
