#include "objects/volume_job.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "base/json_fields.h"
#include "base/json_section.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/patch.h"

namespace csidelta::objects {
namespace {

// The program refuses a mode that it does not know.
constexpr auto kObjectLockFields = [](auto& fields, auto& lock) {
  fields("mode", lock.mode, Required());
  fields("days", lock.days, NumberRange{kObjectLockDaysMin, kObjectLockDaysMax});
};

constexpr auto kRepositoryFields = [](auto& fields, auto& repository) {
  fields("address", repository.address, Required());
  fields("region", repository.region);
  fields("bucketLookup", repository.bucket_lookup);
  fields("encryption", repository.encryption);
  fields("kmsKeyID", repository.kms_key_id);
  fields("tagging", repository.tagging);
  fields("options", repository.options);
  // As below: where it is not set, no field stands in the task.
  fields("objectLock", repository.object_lock, kObjectLockFields);
  fields("insecureTLS", repository.insecure_tls);
  fields("readOnly", repository.is_read_only);
  fields("hasCertificates", repository.has_certificates);
  fields("hasKeyring", repository.has_keyring);
};

constexpr auto kLimitFields = [](auto& fields, auto& limits) {
  fields("memoryBytes", limits.memory_bytes);
  kJobRateFields(fields, limits.rates);
};

constexpr auto kUploadFields = [](auto& fields, auto& work) {
  fields("device", work.device, Required());
  fields("host", work.host);
  fields("path", work.path);
  fields("volumeSnapshot", work.volume_snapshot);
  fields("tags", work.tags);
  fields("onFallback", work.on_fallback, kOnFallbackNames);
  fields("full", work.is_full);
  fields("parent", work.parent);
  fields("driverParameters", work.driver_parameters);
  fields("pvcUID", work.pvc_uid);
  fields("restoredSnapshot", work.restored_snapshot);
  fields("whyNoParent", work.why_no_parent);
  fields("damage", work.damage, kRepositoryDamageFields);
};

constexpr auto kDownloadFields = [](auto& fields, auto& work) {
  fields("device", work.device, Required());
  fields("snapshotID", work.snapshot_id, Required());
  fields("onlyDiffering", work.only_differing);
  fields("startBefore", work.start_before);
};

constexpr auto kForgetItemFields = [](auto& fields, auto& item) {
  fields.IfSet("snapshotID", item.snapshot_id);
  fields.IfSet("tag", item.tag);
};

constexpr auto kCheckWorkFields = [](auto& fields, auto& work) {
  fields("parts", work.parts, NumberRange{1, kCheckPartsMax});
  fields("part", work.part, NumberRange{1, work.parts});
  fields("readNewerThan", work.read_newer_than);
  fields("host", work.host);
  fields("knownTags", work.known_tags);
  fields("orphansBefore", work.orphans_before);
  fields("renewLocks", work.renew_locks, kObjectLockFields);
  fields("locksRenewedAt", work.locks_renewed_at);
};

constexpr auto kForgetFields = [](auto& fields, auto& work) {
  fields("items", work.items, kForgetItemFields);
  fields("damage", work.damage, kRepositoryDamageFields);
};

constexpr auto kJobFields = [](auto& fields, auto& job) {
  fields("repository", job.repository, kRepositoryFields);
  fields("limits", job.limits, kLimitFields);
  fields("lockWaitSeconds", job.lock_wait);
  fields("endedPods", job.ended_pods);
  fields.template OneOf<UploadWork>("upload", job.work, kUploadFields);
  fields.template OneOf<DownloadWork>("download", job.work, kDownloadFields);
  fields.template OneOf<ForgetWork>("forget", job.work, kForgetFields);
  fields.template OneOf<CheckWork>("check", job.work, kCheckWorkFields);
};

class JobWriter : public JsonFieldWriter {
 public:
  template <typename Work>
  void OneOf(const char* name, const VolumeWork& work, const auto& walk) {
    const Work* const one = std::get_if<Work>(&work);
    (*this)(name, one != nullptr ? std::optional(*one) : std::nullopt, walk);
  }
};

class JobReader {
 public:
  explicit JobReader(JsonSection& section) : section_(section) {}

  void operator()(const char* name, std::string& text) { section_.Text(name, text); }
  void operator()(const char* name, std::string& text, Required /*form*/) {
    section_.Text(name, text);
    section_.Require(name, !text.empty());
  }
  void operator()(const char* name, bool& flag) { section_.Flag(name, flag); }
  void operator()(const char* name, int64_t& number, NumberRange range = kAnyCount) {
    section_.Number(name, range.min, range.max, number);
  }
  void operator()(const char* name, std::vector<std::string>& texts) {
    section_.TextList(name, texts, "a list of texts",
                      [](absl::string_view /*text*/) { return true; });
  }
  void operator()(const char* name, std::optional<absl::Duration>& duration) {
    int64_t seconds = -1;
    section_.Number(name, kAnyCount.min, kAnyCount.max, seconds);
    if (seconds >= 0) {
      duration = absl::Seconds(seconds);
    }
  }
  void operator()(const char* name, std::optional<absl::Time>& time) {
    std::string text;
    section_.Text(name, text, "a time as RFC 3339 has it",
                  [](absl::string_view one) { return ParseRfc3339(one).has_value(); });
    time = ParseRfc3339(text);
  }
  void operator()(const char* name, OnFallback& on_fallback, const auto& names) {
    std::string text = EnumName(names, on_fallback);
    section_.Text(name, text, "proceed, warn or fail",
                  [&](absl::string_view one) { return EnumValue(names, one).has_value(); });
    on_fallback = EnumValue(names, text).value_or(on_fallback);
  }
  template <typename Struct>
  void operator()(const char* name, Struct& value, const auto& walk) {
    section_.Inner(name, [&](JsonSection& inner) {
      JobReader fields(inner);
      walk(fields, value);
    });
  }
  template <typename Struct>
  void operator()(const char* name, std::optional<Struct>& value, const auto& walk) {
    section_.Inner(name, [&](JsonSection& inner) {
      JobReader fields(inner);
      walk(fields, value.emplace());
    });
  }
  void operator()(const char* name, std::vector<std::string>& packs, CountMax max, OnlyTexts only) {
    section_.EachText(name, max.count, "a list of at most 64 ids of packs",
                      [&](const std::string& pack) {
                        packs.push_back(pack);
                        return only.is_legal(pack);
                      });
  }
  void operator()(const char* name, std::vector<ForgetItem>& items, const auto& walk) {
    section_.SectionList(name, 1, kForgetItemsMax, [&](JsonSection& section) {
      JobReader fields(section);
      walk(fields, items.emplace_back());
      if (items.back().snapshot_id.empty() == items.back().tag.empty()) {
        section.Refuse("has not one of snapshotID and tag");
      }
    });
    section_.Require(name, !items.empty());
  }
  void IfSet(const char* name, std::string& text) { section_.Text(name, text); }
  template <typename Work>
  void OneOf(const char* name, VolumeWork& work, const auto& walk) {
    section_.Inner(name, [&](JsonSection& inner) {
      ++kinds_;
      JobReader fields(inner);
      walk(fields, work.emplace<Work>());
    });
  }

  int kinds() const { return kinds_; }  // of work, how many there were

 private:
  static constexpr NumberRange kAnyCount = {0, std::numeric_limits<int64_t>::max()};

  JsonSection& section_;
  int kinds_ = 0;
};

}  // namespace

Json ToJson(const VolumeJob& job) {
  JobWriter fields;
  kJobFields(fields, job);
  return std::move(fields).Take();
}

Patch& Patch::SetJob(const VolumeJob& job) { return Set({"spec", "job"}, ToJson(job)); }

Patch& Patch::SetJobRates(const JobRates& rates) {
  return Set({"spec", "job", "limits"}, WriteFields(kJobRateFields, rates));
}

absl::StatusOr<VolumeJob> ReadJob(const Json& json) {
  VolumeJob job;
  absl::Status status;
  JsonSection section(json, "spec.job", status);
  JobReader fields(section);
  kJobFields(fields, job);
  section.Require("repository", !job.repository.address.empty());
  if (fields.kinds() != 1) {
    section.Refuse("has not one of upload, download, forget and check");
  }
  section.Close();
  RETURN_IF_ERROR(status);
  return job;
}

}  // namespace csidelta::objects
