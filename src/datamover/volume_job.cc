#include "datamover/volume_job.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "datamover/json_field.h"

namespace csidelta::datamover {
namespace {

constexpr JsonField<JobRepository, std::string> kRepositoryTexts[] = {
    {"address", &JobRepository::address},
    {"region", &JobRepository::region},
    {"bucketLookup", &JobRepository::bucket_lookup},
    {"encryption", &JobRepository::encryption},
    {"kmsKeyID", &JobRepository::kms_key_id},
    {"tagging", &JobRepository::tagging},
};
constexpr JsonField<JobRepository, bool> kRepositoryFlags[] = {
    {"insecureTLS", &JobRepository::insecure_tls},
    {"readOnly", &JobRepository::is_read_only},
    {"hasCertificates", &JobRepository::has_certificates},
    {"hasKeyring", &JobRepository::has_keyring},
};
constexpr JsonField<JobLimits, int64_t> kLimits[] = {
    {"memoryBytes", &JobLimits::memory_bytes},
    {"uploadKiBPerSecond", &JobLimits::upload_kib_per_second},
    {"downloadKiBPerSecond", &JobLimits::download_kib_per_second},
};
constexpr JsonField<UploadWork, std::string> kUploadTexts[] = {
    {"device", &UploadWork::device},
    {"host", &UploadWork::host},
    {"path", &UploadWork::path},
    {"volumeSnapshot", &UploadWork::volume_snapshot},
};
constexpr JsonField<DownloadWork, std::string> kDownloadTexts[] = {
    {"device", &DownloadWork::device},
    {"snapshotID", &DownloadWork::snapshot_id},
};
constexpr JsonField<ForgetWork, std::string> kForgetTexts[] = {
    {"snapshotID", &ForgetWork::snapshot_id},
    {"tag", &ForgetWork::tag},
};

template <typename Struct, typename Value>
void WriteMembers(const Struct& from, absl::Span<const JsonField<Struct, Value>> fields,
                  Json& json) {
  for (const auto& [name, member] : fields) {
    json[name] = from.*member;
  }
}

Json WorkJson(const UploadWork& work) {
  Json json = {{"tags", work.tags}, {"onFallback", engine::ToString(work.on_fallback)}};
  WriteMembers<UploadWork, std::string>(work, kUploadTexts, json);
  return json;
}

Json WorkJson(const DownloadWork& work) {
  Json json = {{"onlyDiffering", work.only_differing}, {"startBefore", nullptr}};
  WriteMembers<DownloadWork, std::string>(work, kDownloadTexts, json);
  if (work.start_before.has_value()) {
    json["startBefore"] = FormatRfc3339(*work.start_before);
  }
  return json;
}

Json WorkJson(const ForgetWork& work) {
  Json json = Json::object();
  WriteMembers<ForgetWork, std::string>(work, kForgetTexts, json);
  return json;
}

const char* WorkName(const UploadWork& /*work*/) { return "upload"; }
const char* WorkName(const DownloadWork& /*work*/) { return "download"; }
const char* WorkName(const ForgetWork& /*work*/) { return "forget"; }

// Takes the fields out of one object, and keeps what is wrong first. A field that is missing or
// null is as it is by default.
class JobFields {
 public:
  JobFields(const Json& json, std::string path) : path_(std::move(path)) {
    if (json.is_object()) {
      left_ = json;
    } else {
      Fail("", "no object");
    }
  }

  void Take(const char* name, std::string& out) { Take(name, "no text", &Json::is_string, out); }
  void Take(const char* name, bool& out) {
    Take(name, "not true or false", &Json::is_boolean, out);
  }
  void Take(const char* name, std::vector<std::string>& out) {
    const Json value = Next(name);
    const auto is_text = [](const Json& one) { return one.is_string(); };
    if (value.is_array() && std::all_of(value.begin(), value.end(), is_text)) {
      out = value.get<std::vector<std::string>>();
    } else if (!value.is_null()) {
      Fail(name, "no list of texts");
    }
  }
  void Take(const char* name, std::optional<absl::Time>& out) {
    std::string text;
    Take(name, text);
    out = ParseRfc3339(text);
    if (!text.empty() && !out.has_value()) {
      Fail(name, "no time");
    }
  }
  void TakeCount(const char* name, std::optional<int64_t>& out) {
    const Json value = Next(name);
    if (value.is_null()) {
      return;
    }
    const Json holder = {{"value", value}};
    if (const int64_t count = GetInt(holder, {"value"}, -1); count >= 0) {
      out = count;
    } else {
      Fail(name, "no count");
    }
  }
  template <typename Struct, typename Value>
  void TakeAll(absl::Span<const JsonField<Struct, Value>> fields, Struct& out) {
    for (const auto& [name, member] : fields) {
      Take(name, out.*member);
    }
  }
  // An object of its own; nothing where there is none.
  std::optional<JobFields> Inner(const char* name) {
    const Json value = Next(name);
    return value.is_null() ? std::nullopt
                           : std::optional(JobFields(value, absl::StrCat(path_, ".", name)));
  }

  void Require(const char* name, bool is_there) {
    if (!is_there) {
      Fail(name, "missing");
    }
  }
  void Fail(const char* name, absl::string_view what) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(path_, *name == '\0' ? "" : ".", name, " is ", what));
    }
  }
  // What is wrong, which is also a field that nobody took.
  absl::Status Finish() {
    if (!left_.empty()) {
      Fail(left_.begin().key().c_str(), "not known to this version of csi-delta");
    }
    return status_;
  }

 private:
  Json Next(const char* name) {
    const auto found = left_.find(name);
    if (found == left_.end()) {
      return {};
    }
    Json value = std::move(*found);
    left_.erase(found);
    return value;
  }
  template <typename Value>
  void Take(const char* name, absl::string_view what, bool (Json::*is_one)() const noexcept,
            Value& out) {
    const Json value = Next(name);
    if ((value.*is_one)()) {
      out = value.get<Value>();
    } else if (!value.is_null()) {
      Fail(name, what);
    }
  }

  std::string path_;
  Json left_ = Json::object();
  absl::Status status_;
};

absl::StatusOr<JobRepository> ReadJobRepository(JobFields fields) {
  JobRepository repository;
  fields.TakeAll<JobRepository, std::string>(kRepositoryTexts, repository);
  fields.TakeAll<JobRepository, bool>(kRepositoryFlags, repository);
  fields.Require("address", !repository.address.empty());
  RETURN_IF_ERROR(fields.Finish());
  return repository;
}

absl::StatusOr<JobLimits> ReadLimits(JobFields fields) {
  JobLimits limits;
  for (const auto& [name, member] : kLimits) {
    std::optional<int64_t> count;
    fields.TakeCount(name, count);
    limits.*member = count.value_or(0);
  }
  RETURN_IF_ERROR(fields.Finish());
  return limits;
}

absl::Status ReadOne(JobFields fields, UploadWork& work) {
  std::string on_fallback;
  fields.TakeAll<UploadWork, std::string>(kUploadTexts, work);
  fields.Take("tags", work.tags);
  fields.Take("onFallback", on_fallback);
  if (const auto known = engine::ParseOnFallback(on_fallback); known.has_value()) {
    work.on_fallback = *known;
  } else {
    fields.Fail("onFallback", "not proceed, warn or fail");
  }
  fields.Require("device", !work.device.empty());
  return fields.Finish();
}

absl::Status ReadOne(JobFields fields, DownloadWork& work) {
  fields.TakeAll<DownloadWork, std::string>(kDownloadTexts, work);
  fields.Take("onlyDiffering", work.only_differing);
  fields.Take("startBefore", work.start_before);
  fields.Require("device", !work.device.empty());
  fields.Require("snapshotID", !work.snapshot_id.empty());
  return fields.Finish();
}

absl::Status ReadOne(JobFields fields, ForgetWork& work) {
  fields.TakeAll<ForgetWork, std::string>(kForgetTexts, work);
  fields.Require("snapshotID", work.snapshot_id.empty() != work.tag.empty());
  return fields.Finish();
}

// Takes the work of one kind, if the job has it. `count`: of kinds that it has.
template <typename Work>
absl::Status ReadWork(JobFields& fields, VolumeJob& job, int& count) {
  std::optional<JobFields> inner = fields.Inner(WorkName(Work()));
  if (!inner.has_value()) {
    return absl::OkStatus();
  }
  ++count;
  return ReadOne(*std::move(inner), job.work.emplace<Work>());
}

}  // namespace

Json ToJson(const VolumeJob& job) {
  Json repository = Json::object();
  WriteMembers<JobRepository, std::string>(job.repository, kRepositoryTexts, repository);
  WriteMembers<JobRepository, bool>(job.repository, kRepositoryFlags, repository);
  Json limits = Json::object();
  WriteMembers<JobLimits, int64_t>(job.limits, kLimits, limits);
  Json json = {{"repository", std::move(repository)},
               {"limits", std::move(limits)},
               {"lockWaitSeconds", nullptr},
               {"endedPods", job.ended_pods},
               {"upload", nullptr},
               {"download", nullptr},
               {"forget", nullptr}};
  if (job.lock_wait.has_value()) {
    json["lockWaitSeconds"] = absl::ToInt64Seconds(*job.lock_wait);
  }
  std::visit([&json](const auto& work) { json[WorkName(work)] = WorkJson(work); }, job.work);
  return json;
}

absl::StatusOr<VolumeJob> ReadJob(const Json& json) {
  VolumeJob job;
  JobFields fields(json, "spec.job");
  if (std::optional<JobFields> repository = fields.Inner("repository"); repository.has_value()) {
    ASSIGN_OR_RETURN(job.repository, ReadJobRepository(*std::move(repository)));
  }
  fields.Require("repository", !job.repository.address.empty());
  if (std::optional<JobFields> limits = fields.Inner("limits"); limits.has_value()) {
    ASSIGN_OR_RETURN(job.limits, ReadLimits(*std::move(limits)));
  }
  std::optional<int64_t> lock_wait;
  fields.TakeCount("lockWaitSeconds", lock_wait);
  if (lock_wait.has_value()) {
    job.lock_wait = absl::Seconds(*lock_wait);
  }
  fields.Take("endedPods", job.ended_pods);
  int kinds = 0;
  RETURN_IF_ERROR(ReadWork<UploadWork>(fields, job, kinds));
  RETURN_IF_ERROR(ReadWork<DownloadWork>(fields, job, kinds));
  RETURN_IF_ERROR(ReadWork<ForgetWork>(fields, job, kinds));
  if (kinds != 1) {
    fields.Fail("", "not one of upload, download and forget");
  }
  RETURN_IF_ERROR(fields.Finish());
  return job;
}

}  // namespace csidelta::datamover
