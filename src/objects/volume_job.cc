#include "objects/volume_job.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/json_field.h"
#include "base/json_section.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"

namespace csidelta::objects {
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
constexpr JsonField<ForgetItem, std::string> kForgetTexts[] = {
    {"snapshotID", &ForgetItem::snapshot_id},
    {"tag", &ForgetItem::tag},
};

constexpr char kListOfTexts[] = "a list of texts";
bool IsAnyText(absl::string_view /*text*/) { return true; }

template <typename Struct, typename Value>
void WriteMembers(const Struct& from, absl::Span<const JsonField<Struct, Value>> fields,
                  Json& json) {
  for (const auto& [name, member] : fields) {
    json[name] = from.*member;
  }
}

Json WorkJson(const UploadWork& work) {
  Json json = {{"tags", work.tags}, {"onFallback", ToString(work.on_fallback)}};
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
  Json items = Json::array();
  for (const ForgetItem& item : work.items) {
    Json json = Json::object();
    for (const auto& [name, member] : kForgetTexts) {
      if (!(item.*member).empty()) {
        json[name] = item.*member;
      }
    }
    items.push_back(std::move(json));
  }
  Json json = {{"items", std::move(items)}};
  for (const auto& [name, member] : kForgetTexts) {
    json[name] = nullptr;  // where the version before has its only item
  }
  return json;
}

Json WorkJson(const CheckWork& work) {
  return {{"part", work.part},
          {"parts", work.parts},
          {"readNewerThan",
           work.read_newer_than.has_value() ? Json(FormatRfc3339(*work.read_newer_than)) : Json()},
          {"host", work.host},
          {"knownTags", work.known_tags},
          {"orphansBefore",
           work.orphans_before.has_value() ? Json(FormatRfc3339(*work.orphans_before)) : Json()}};
}

const char* NameOf(const UploadWork& /*work*/) { return "upload"; }
const char* NameOf(const DownloadWork& /*work*/) { return "download"; }
const char* NameOf(const ForgetWork& /*work*/) { return "forget"; }
const char* NameOf(const CheckWork& /*work*/) { return "check"; }

template <typename Struct>
void ReadTexts(JsonSection& section, absl::Span<const JsonField<Struct, std::string>> fields,
               Struct& out) {
  for (const auto& [name, member] : fields) {
    section.Text(name, out.*member);
  }
}

void ReadTime(JsonSection& section, const char* name, std::optional<absl::Time>& out) {
  std::string time;
  section.Text(name, time, "a time as RFC 3339 has it",
               [](absl::string_view text) { return ParseRfc3339(text).has_value(); });
  out = ParseRfc3339(time);
}

void ReadRepository(JsonSection& section, JobRepository& out) {
  ReadTexts<JobRepository>(section, kRepositoryTexts, out);
  for (const auto& [name, member] : kRepositoryFlags) {
    section.Flag(name, out.*member);
  }
  section.Require("address", !out.address.empty());
}

void ReadLimits(JsonSection& section, JobLimits& out) {
  for (const auto& [name, member] : kLimits) {
    section.Number(name, 0, std::numeric_limits<int64_t>::max(), out.*member);
  }
}

void ReadWork(JsonSection& section, UploadWork& out) {
  ReadTexts<UploadWork>(section, kUploadTexts, out);
  section.TextList("tags", out.tags, kListOfTexts, IsAnyText);
  std::string on_fallback = ToString(out.on_fallback);
  section.Text("onFallback", on_fallback, "proceed, warn or fail",
               [](absl::string_view text) { return ParseOnFallback(text).has_value(); });
  out.on_fallback = ParseOnFallback(on_fallback).value_or(out.on_fallback);
  section.Require("device", !out.device.empty());
}

void ReadWork(JsonSection& section, DownloadWork& out) {
  ReadTexts<DownloadWork>(section, kDownloadTexts, out);
  section.Flag("onlyDiffering", out.only_differing);
  ReadTime(section, "startBefore", out.start_before);
  section.Require("device", !out.device.empty());
  section.Require("snapshotID", !out.snapshot_id.empty());
}

void ReadItem(JsonSection& section, std::vector<ForgetItem>& out) {
  ForgetItem item;
  ReadTexts<ForgetItem>(section, kForgetTexts, item);
  if (item.snapshot_id.empty() == item.tag.empty()) {
    section.Refuse("has not one of snapshotID and tag");
  }
  out.push_back(std::move(item));
}

// A controller of the version before wrote one item, without a list.
void ReadWork(JsonSection& section, ForgetWork& out) {
  out.items.clear();
  section.SectionList("items", 1, kForgetItemsMax,
                      [&out](JsonSection& item) { ReadItem(item, out.items); });
  if (out.items.empty()) {
    ReadItem(section, out.items);
  }
}

void ReadWork(JsonSection& section, CheckWork& out) {
  section.Number("parts", 1, kCheckPartsMax, out.parts);
  section.Number("part", 1, out.parts, out.part);
  ReadTime(section, "readNewerThan", out.read_newer_than);
  section.Text("host", out.host);
  section.TextList("knownTags", out.known_tags, kListOfTexts, IsAnyText);
  ReadTime(section, "orphansBefore", out.orphans_before);
}

// Reads the work of one kind, if the job has it. `kinds`: how many it has.
template <typename Work>
void ReadWorkOf(JsonSection& section, VolumeJob& job, int& kinds) {
  section.Inner(NameOf(Work()), [&](JsonSection& inner) {
    ++kinds;
    ReadWork(inner, job.work.emplace<Work>());
  });
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
               {"forget", nullptr},
               {"check", nullptr}};
  if (job.lock_wait.has_value()) {
    json["lockWaitSeconds"] = absl::ToInt64Seconds(*job.lock_wait);
  }
  std::visit([&json](const auto& work) { json[NameOf(work)] = WorkJson(work); }, job.work);
  return json;
}

absl::StatusOr<VolumeJob> ReadJob(const Json& json) {
  VolumeJob job;
  absl::Status status;
  JsonSection section(json, "spec.job", status);
  section.Inner("repository",
                [&job](JsonSection& inner) { ReadRepository(inner, job.repository); });
  section.Require("repository", !job.repository.address.empty());
  section.Inner("limits", [&job](JsonSection& inner) { ReadLimits(inner, job.limits); });
  int64_t lock_wait_seconds = -1;
  section.Number("lockWaitSeconds", 0, std::numeric_limits<int64_t>::max(), lock_wait_seconds);
  if (lock_wait_seconds >= 0) {
    job.lock_wait = absl::Seconds(lock_wait_seconds);
  }
  section.TextList("endedPods", job.ended_pods, kListOfTexts, IsAnyText);
  int kinds = 0;
  ReadWorkOf<UploadWork>(section, job, kinds);
  ReadWorkOf<DownloadWork>(section, job, kinds);
  ReadWorkOf<ForgetWork>(section, job, kinds);
  ReadWorkOf<CheckWork>(section, job, kinds);
  if (kinds != 1) {
    section.Refuse("has not one of upload, download, forget and check");
  }
  section.Close();
  RETURN_IF_ERROR(status);
  return job;
}

}  // namespace csidelta::objects
