#include "report/report.h"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/enum_names.h"
#include "base/human_text.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "report/summary.h"

namespace csidelta::report {
namespace {

constexpr EnumNames<BackupState, 3> kStates = {{{BackupState::kGood, "good"},
                                                {BackupState::kFailed, "failed"},
                                                {BackupState::kBroken, "broken"}}};

constexpr auto kBackupFields = [](auto& fields, auto& backup) {
  fields("at", backup.at);
  fields("state", backup.state, kStates);
  fields.IfSet("backup", backup.backup);
  fields.IfSet("snapshot", backup.snapshot);
  fields.IfSet("base", backup.base);
  fields.IfSet("mode", backup.mode);
  fields.IfSet("reason", backup.reason);
  fields.IfSet("message", backup.message);
  fields.IfSet("size_bytes", backup.size_bytes);
  fields.IfSet("changed_bytes", backup.changed_bytes);
  fields.IfSet("read_bytes", backup.read_bytes);
  fields.IfSet("audit_bytes", backup.audit_bytes);
  fields.IfSet("stored_bytes", backup.stored_bytes);
};

constexpr auto kVolumeFields = [](auto& fields, auto& volume) {
  fields("name", volume.name);
  fields("location", volume.location);
  fields.IfSet("schedules", volume.schedules);
  fields.IfSet("known_since", volume.known_since);
  fields.IfSet("gone_at", volume.gone_at);
  fields.IfSet("verified_at", volume.verified_at);
  fields.IfSet("finding", volume.finding);
  fields.IfSet("next_step", volume.next_step);
  fields("backups", volume.backups, kBackupFields);
};

constexpr auto kReportFields = [](auto& fields, auto& report) {
  fields("schema_version", report.schema_version);
  fields("made_at", report.made_at);
  fields("since", report.since);
  fields("subject", report.subject);
  fields("notes", report.notes);
  fields("volumes", report.volumes, kVolumeFields);
};

// Reads values of a report, and refuses what none can be.
class StreamedFields {
 public:
  explicit StreamedFields(JsonReader& reader) : reader_(reader) {}

  template <typename Struct, typename Walk>
  requires std::is_aggregate_v<Struct>
  void Read(Struct& value, const Walk& walk) {
    reader_.BeginObject();
    while (reader_.NextMember(key_)) {
      is_taken_ = false;
      walk(*this, value);
      if (!is_taken_) {
        reader_.Skip();
      }
      is_taken_ = true;  // The members of `value` are not those of what holds it.
    }
  }

  // A field of the walk: read where the member has its name.
  template <typename Value, typename... Form>
  void operator()(absl::string_view name, Value& value, const Form&... form) {
    if (!is_taken_ && key_ == name) {
      is_taken_ = true;
      Read(value, form...);
    }
  }
  template <typename Value, typename... Form>
  void IfSet(absl::string_view name, Value& value, const Form&... form) {
    (*this)(name, value, form...);
  }

 private:
  void Read(std::string& text) {
    text = CutText(reader_.String(), kTextBytesMax);
    texts_left_ -= static_cast<int64_t>(text.size());
    Require(texts_left_ >= 0, "the texts are too long in all");
  }
  void Read(int64_t& number) {
    const uint64_t read = reader_.Unsigned();
    Require(read <= uint64_t{kBytesMax}, "the number is too large");
    number = static_cast<int64_t>(read);
  }
  void Read(absl::Time& time) {
    const std::optional<absl::Time> read = ParseRfc3339(reader_.String());
    Require(read.has_value(), "no time as RFC 3339 has it");
    time = read.value_or(time);
  }
  template <typename Enum, std::size_t kCount>
  void Read(Enum& value, const EnumNames<Enum, kCount>& names) {
    const std::optional<Enum> read = EnumValue(names, reader_.String());
    Require(read.has_value(), "an unknown state");
    value = read.value_or(value);
  }
  template <typename Value>
  void Read(std::optional<Value>& value) {
    if (reader_.TakeNull()) {
      value.reset();
    } else {
      Read(value.emplace());
    }
  }
  template <typename Value, typename... Form>
  void Read(std::vector<Value>& list, const Form&... form) {
    list.clear();
    reader_.BeginArray();
    while (reader_.NextElement()) {
      Require(--entries_left_ >= 0, "too many entries");
      Read(list.emplace_back(), form...);
    }
  }

  void Require(bool is_so, absl::string_view otherwise) {
    if (!is_so && !reader_.failed()) {
      reader_.Fail(otherwise);
    }
  }

  JsonReader& reader_;
  absl::string_view key_;
  bool is_taken_ = true;
  int64_t texts_left_ = kTextsBytesMax;
  int64_t entries_left_ = kEntriesMax;
};

Json SummaryJson(const Summary& summary) {
  Json problems = Json::array();
  for (const Problem& problem : summary.problems) {
    Json volumes = Json::array();
    for (const std::size_t at : problem.volumes) {
      volumes.push_back(summary.volumes[at].entry->name);
    }
    problems.push_back({{"title", problem.title},
                        {"next_step", problem.next_step},
                        {"backups", problem.backups},
                        {"first", FormatRfc3339(problem.first)},
                        {"last", FormatRfc3339(problem.last)},
                        {"volumes", std::move(volumes)}});
  }
  return {{"headline", summary.headline}, {"lines", summary.lines}, {"problems", problems}};
}

}  // namespace

absl::Status Normalize(Report& report) {
  if (report.made_at - report.since < absl::Hours(1) ||
      report.made_at - report.since > kDaysMax * absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a report is of at least an hour and at most ", kDaysMax, " days"));
  }
  if (report.volumes.size() > kVolumesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are more than ", kVolumesMax, " volumes"));
  }
  for (VolumeEntry& volume : report.volumes) {
    std::erase_if(volume.backups, [&](const BackupEntry& backup) {
      return backup.at < report.since || backup.at > report.made_at;
    });
    for (BackupEntry& backup : volume.backups) {
      backup.size_bytes = std::clamp<int64_t>(backup.size_bytes, 0, kBytesMax);
      for (std::optional<int64_t>* const figure :
           {&backup.changed_bytes, &backup.read_bytes, &backup.audit_bytes, &backup.stored_bytes}) {
        if (figure->has_value()) {
          *figure = std::clamp<int64_t>(**figure, 0, kBytesMax);
        }
      }
    }
    std::stable_sort(volume.backups.begin(), volume.backups.end(),
                     [](const BackupEntry& a, const BackupEntry& b) { return a.at < b.at; });
  }
  std::stable_sort(report.volumes.begin(), report.volumes.end(),
                   [](const VolumeEntry& a, const VolumeEntry& b) {
                     return std::tie(a.name, a.location) < std::tie(b.name, b.location);
                   });
  return absl::OkStatus();
}

void WriteJson(const Report& report, absl::FunctionRef<void(absl::string_view)> sink) {
  const Report head = {.made_at = report.made_at,
                       .since = report.since,
                       .subject = report.subject,
                       .notes = report.notes};
  Json json = WriteFields(kReportFields, head);
  json.erase("volumes");
  json["message_type"] = "report";
  json["summary"] = SummaryJson(Summarize(report));
  std::string text = DumpJson(json);
  text.pop_back();  // the brace
  sink(absl::StrCat(text, ",\"volumes\":["));
  absl::string_view between = "";
  for (const VolumeEntry& volume : report.volumes) {
    sink(absl::StrCat(between, DumpJson(WriteFields(kVolumeFields, volume))));
    between = ",";
  }
  sink("]}\n");
}

absl::StatusOr<Report> ReadJson(JsonReader::More more) {
  JsonReader reader(more);
  Report report = {.schema_version = 0};
  StreamedFields(reader).Read(report, kReportFields);
  RETURN_IF_ERROR(reader.Finish());
  if (report.schema_version != 1) {
    return absl::InvalidArgumentError("it is not a report of schema_version 1");
  }
  RETURN_IF_ERROR(Normalize(report));
  return report;
}

}  // namespace csidelta::report
