#include "datamover/settings.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "csi/snapshot_types.h"
#include "k8s/find.h"
#include "velero/go_duration.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kTextBytesMax = 64 << 10;
constexpr int64_t kValuesMax = 10'000;
constexpr std::size_t kQuotedBytesMax = 64;
constexpr int64_t kTransfersMax = 1000;
constexpr int64_t kKibPerSecondMax = 1'000'000'000;
constexpr std::size_t kWindowsMax = 24;
constexpr int64_t kGroupMax = int64_t{1} << 31;
constexpr int64_t kMemoryLeast = int64_t{128} << 20;
// Watching the task and writing its status.
constexpr int64_t kControlBytes = int64_t{32} << 20;

std::string Quote(const Json& value) {
  return absl::CHexEscape(DumpJson(value).substr(0, kQuotedBytesMax));
}

// Labels and annotations that say whose an object is are not anybody's to set.
bool IsReserved(absl::string_view key) {
  return absl::StrContains(key, "csi-delta.io/") || absl::StartsWith(key, "velero.io/");
}

bool IsLabelValue(absl::string_view text) {
  return text.size() <= 63 &&
         std::all_of(
             text.begin(), text.end(),
             [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.'; }) &&
         (text.empty() || (absl::ascii_isalnum(text.front()) && absl::ascii_isalnum(text.back())));
}

bool IsQuantity(absl::string_view text) {
  const absl::StatusOr<int64_t> quantity = ParseQuantity(text);
  return quantity.ok() && *quantity > 0;
}

int64_t Bytes(const std::string& quantity) { return ParseQuantity(quantity).value_or(0); }

// One JSON object of the settings: each key that it may have is read once, and what is left over is
// an error. The first error of all sections is kept in `status`.
class Section {
 public:
  Section(const Json& object, std::string path, absl::Status& status);

  // The value of a key; null when it is not set.
  const Json* Take(const std::string& key);

  std::string PathOf(const std::string& key) const {
    return path_.empty() ? key : absl::StrCat(path_, ".", key);
  }

  void Fail(const std::string& path, const Json& value, absl::string_view form);

  template <typename Legal>
  void Text(const std::string& key, std::string& out, absl::string_view form, Legal legal) {
    if (const Json* value = Take(key); value != nullptr) {
      if (!value->is_string() || !legal(value->get<std::string>())) {
        return Fail(PathOf(key), *value, form);
      }
      out = value->get<std::string>();
    }
  }

  void Quantity(const std::string& key, std::string& out) {
    Text(key, out, "a quantity above 0, such as \"256Mi\" or \"100m\"", IsQuantity);
  }

  void Name(const std::string& key, std::string& out);
  void Flag(const std::string& key, bool& out);
  void Count(const std::string& key, int& out);
  void Number(const std::string& key, int64_t max, int64_t& out);

  // Texts by key: labels, annotations, selectors.
  template <typename Legal>
  void Texts(const std::string& key, std::map<std::string, std::string>& out,
             absl::string_view form, Legal legal) {
    const Json* value = Take(key);
    if (value == nullptr) {
      return;
    }
    if (!value->is_object()) {
      return Fail(PathOf(key), *value, "an object of texts");
    }
    for (auto item = value->begin(); item != value->end(); ++item) {
      const std::string* text = item->get_ptr<const std::string*>();
      if (text == nullptr || !legal(item.key(), *text)) {
        return Fail(absl::StrCat(PathOf(key), ".", item.key()), *item, form);
      }
      out[item.key()] = *text;
    }
  }

  // Objects by name: `read` gets each with its section.
  template <typename Read>
  void Sections(const std::string& key, Read read) {
    const Json* value = Take(key);
    if (value == nullptr) {
      return;
    }
    if (!value->is_object()) {
      return Fail(PathOf(key), *value, "an object");
    }
    for (const auto& [name, object] : value->items()) {
      Section section(object, absl::StrCat(PathOf(key), ".", name), status_);
      read(name, section);
      section.Close();
    }
  }

  // A section that may be missing.
  template <typename Read>
  void Inner(const std::string& key, Read read) {
    if (const Json* value = Take(key); value != nullptr) {
      Section section(*value, PathOf(key), status_);
      read(section);
      section.Close();
    }
  }

  // Refuses what nobody took.
  void Close();

 private:
  const Json& object_;
  const std::string path_;
  absl::Status& status_;
  std::set<std::string> known_;
};

Section::Section(const Json& object, std::string path, absl::Status& status)
    : object_(object), path_(std::move(path)), status_(status) {
  if (!object_.is_object()) {
    Fail(path_.empty() ? "the settings" : path_, object_, "an object");
  }
}

const Json* Section::Take(const std::string& key) {
  known_.insert(key);
  return FindJson(object_, {key});
}

void Section::Fail(const std::string& path, const Json& value, absl::string_view form) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat(path, ": ", Quote(value), " is not ", form));
  }
}

void Section::Name(const std::string& key, std::string& out) {
  Text(key, out, "a name of 1 to 253 bytes",
       [](absl::string_view text) { return !text.empty() && text.size() <= 253; });
}

void Section::Flag(const std::string& key, bool& out) {
  if (const Json* value = Take(key); value != nullptr) {
    if (!value->is_boolean()) {
      return Fail(PathOf(key), *value, "true or false");
    }
    out = value->get<bool>();
  }
}

void Section::Count(const std::string& key, int& out) {
  int64_t count = out;
  Number(key, kTransfersMax, count);
  out = static_cast<int>(count);
}

void Section::Number(const std::string& key, int64_t max, int64_t& out) {
  if (const Json* value = Take(key); value != nullptr) {
    const int64_t number = GetInt(object_, {key}, -1);
    if (number < 1 || number > max) {
      return Fail(PathOf(key), *value, absl::StrCat("a number from 1 to ", max));
    }
    out = number;
  }
}

void Section::Close() {
  if (!status_.ok() || !object_.is_object()) {
    return;
  }
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key)) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(absl::CHexEscape(PathOf(key).substr(0, 2 * kQuotedBytesMax)),
                       ": there is no such setting; there are ", absl::StrJoin(known_, ", ")));
      return;
    }
  }
}

void ReadSelector(Section& section, std::map<std::string, std::string>& out) {
  section.Texts("nodeSelector", out, "the value of a node's label",
                [](absl::string_view name, absl::string_view value) {
                  return !name.empty() && IsLabelValue(value);
                });
}

void ReadResources(Section& section, WorkerResources& out) {
  section.Inner("requests", [&out](Section& requests) {
    requests.Quantity("cpu", out.cpu_request);
    requests.Quantity("memory", out.memory_request);
  });
  section.Inner("limits", [&out](Section& limits) {
    limits.Quantity("cpu", out.cpu_limit);
    limits.Text("memory", out.memory_limit, "a quantity of at least 128Mi",
                [](const std::string& text) { return Bytes(text) >= kMemoryLeast; });
  });
}

bool IsToleration(const Json& toleration) {
  return toleration.is_object() &&
         std::all_of(toleration.items().begin(), toleration.items().end(), [](const auto& item) {
           static const std::set<std::string> kTexts = {"key", "operator", "value", "effect"};
           return item.key() == "tolerationSeconds"
                      ? item.value().is_number_integer()
                      : kTexts.contains(item.key()) && item.value().is_string();
         });
}

void ReadTolerations(Section& section, Json& out) {
  const Json* value = section.Take("tolerations");
  if (value == nullptr) {
    return;
  }
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), IsToleration)) {
    return section.Fail(section.PathOf("tolerations"), *value,
                        "a list of tolerations as a Pod has them");
  }
  out = *value;
}

void ReadAffinity(Section& section, Json& out) {
  section.Inner("affinity", [&out](Section& affinity) {
    for (const char* kind : {"nodeAffinity", "podAffinity", "podAntiAffinity"}) {
      const Json* value = affinity.Take(kind);
      if (value != nullptr && !value->is_object()) {
        affinity.Fail(affinity.PathOf(kind), *value, "an object as a Pod has it");
      } else if (value != nullptr) {
        out[kind] = *value;
      }
    }
  });
}

void ReadGroups(Section& section, std::vector<int64_t>& out) {
  const Json* value = section.Take("supplementalGroups");
  if (value == nullptr) {
    return;
  }
  const bool legal =
      value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& group) {
        return group.is_number_integer() && group.get<int64_t>() > 0 &&
               group.get<int64_t>() < kGroupMax;
      });
  if (!legal) {
    return section.Fail(section.PathOf("supplementalGroups"), *value,
                        "a list of group numbers above 0");
  }
  out = value->get<std::vector<int64_t>>();
}

void ReadPullSecrets(Section& section, std::vector<std::string>& out) {
  const Json* value = section.Take("imagePullSecrets");
  if (value == nullptr) {
    return;
  }
  const bool legal =
      value->is_array() && std::all_of(value->begin(), value->end(), [](const Json& name) {
        return name.is_string() && !name.get<std::string>().empty();
      });
  if (!legal) {
    return section.Fail(section.PathOf("imagePullSecrets"), *value, "a list of names of Secrets");
  }
  out = value->get<std::vector<std::string>>();
}

void ReadWorker(Section& section, WorkerSettings& out) {
  section.Inner("resources",
                [&out](Section& resources) { ReadResources(resources, out.resources); });
  section.Quantity("scratchSize", out.scratch_size);
  section.Number("limitUpload", kKibPerSecondMax, out.upload_kib_per_second_max);
  section.Number("limitDownload", kKibPerSecondMax, out.download_kib_per_second_max);
  ReadGroups(section, out.supplemental_groups);
  section.Name("priorityClassName", out.priority_class);
  section.Text("imagePullPolicy", out.image_pull_policy, "Always, IfNotPresent or Never",
               [](absl::string_view text) {
                 return text == "Always" || text == "IfNotPresent" || text == "Never";
               });
  ReadPullSecrets(section, out.image_pull_secrets);
  section.Texts("podLabels", out.pod_labels, "the value of a label that is not ours or Velero's",
                [](absl::string_view name, absl::string_view value) {
                  return !name.empty() && !IsReserved(name) && IsLabelValue(value);
                });
  section.Texts(
      "podAnnotations", out.pod_annotations,
      "the text of an annotation that is not ours or Velero's",
      [](absl::string_view name, absl::string_view) { return !name.empty() && !IsReserved(name); });
  ReadSelector(section, out.node_selector);
  ReadTolerations(section, out.tolerations);
  ReadAffinity(section, out.affinity);
}

void ReadTimeout(Section& section, absl::Duration& out) {
  std::string text;
  section.Text("prepareTimeout", text, "a duration from 1m to 24h, such as \"30m\"",
               [](absl::string_view value) {
                 const absl::StatusOr<absl::Duration> duration = velero::ParseGoDuration(value);
                 return duration.ok() && *duration >= absl::Minutes(1) &&
                        *duration <= absl::Hours(24);
               });
  if (!text.empty()) {
    out = *velero::ParseGoDuration(text);
  }
}

void ReadWindows(Section& section, std::vector<DailyWindow>& out) {
  const Json* value = section.Take("uploadWindows");
  if (value == nullptr) {
    return;
  }
  constexpr char kForm[] = "a list of times of the day in UTC, such as [\"22:00-06:00\"]";
  if (!value->is_array() || value->size() > kWindowsMax) {
    return section.Fail(section.PathOf("uploadWindows"), *value, kForm);
  }
  for (const Json& one : *value) {
    const std::string* text = one.get_ptr<const std::string*>();
    const auto window = ParseDailyWindow(text == nullptr ? "" : *text);
    if (!window.has_value()) {
      return section.Fail(section.PathOf("uploadWindows"), one, kForm);
    }
    out.push_back(*window);
  }
}

void ReadAll(Section& section, MoverSettings& out) {
  section.Flag("paused", out.is_paused);
  ReadWindows(section, out.upload_windows);
  ReadTimeout(section, out.prepare_timeout);
  std::string on_fallback = engine::ToString(out.on_fallback);
  section.Text("onFallback", on_fallback, "proceed, warn or fail",
               [](absl::string_view text) { return engine::ParseOnFallback(text).has_value(); });
  out.on_fallback = engine::ParseOnFallback(on_fallback).value_or(out.on_fallback);
  section.Inner("limits", [&out](Section& limits) {
    limits.Count("total", out.transfers_max);
    limits.Count("perNode", out.transfers_per_node_max);
    limits.Count("perNamespace", out.transfers_per_namespace_max);
  });
  section.Inner("restore", [&out](Section& restore) {
    restore.Flag("ignoreDelayBinding", out.ignore_delay_binding);
    restore.Flag("intoExistingVolumes", out.writes_into_existing);
  });
  section.Sections("storageClasses", [&out](const std::string& name, Section& one) {
    StorageClassSettings& settings = out.storage_classes[name];
    one.Name("intermediateClass", settings.intermediate_class);
    one.Flag("readOnlyMany", settings.read_only_many);
    one.Count("limit", settings.transfers_max);
    ReadSelector(one, settings.node_selector);
  });
  section.Sections("backupStorageLocations", [&out](const std::string& name, Section& one) {
    one.Count("limit", out.locations[name].transfers_max);
  });
  section.Sections("drivers", [&out](const std::string& name, Section& one) {
    bool keep_base = true;
    one.Flag("keepBase", keep_base);
    if (one.Take("keepBase") != nullptr) {
      out.keep_base[name] = keep_base;
    }
  });
  section.Inner("worker", [&out](Section& worker) { ReadWorker(worker, out.worker); });
}

}  // namespace

absl::StatusOr<MoverSettings> ParseMoverSettings(absl::string_view text) {
  MoverSettings settings;
  if (absl::StripAsciiWhitespace(text).empty()) {
    return settings;
  }
  if (text.size() > kTextBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the settings are longer than ", kTextBytesMax, " bytes"));
  }
  ASSIGN_OR_RETURN(const Json object, ParseJsonObject(text, kValuesMax));
  absl::Status status;
  Section all(object, "", status);
  ReadAll(all, settings);
  all.Close();
  RETURN_IF_ERROR(status);
  return settings;
}

absl::StatusOr<MoverSettings> ReadMoverSettings(const CallContext& ctx, k8s::ApiClient& api,
                                                absl::string_view mover_namespace) {
  ASSIGN_OR_RETURN(const std::optional<MoverSettings> found,
                   FindMoverSettings(ctx, api, mover_namespace));
  return found.value_or(MoverSettings());
}

absl::StatusOr<std::optional<MoverSettings>> FindMoverSettings(const CallContext& ctx,
                                                               k8s::ApiClient& api,
                                                               absl::string_view mover_namespace) {
  const k8s::ObjectKey key{.type = csi::ConfigMapType(),
                           .namespace_name = std::string(mover_namespace),
                           .name = kSettingsConfigMap};
  ASSIGN_OR_RETURN(const std::optional<Json> config_map, k8s::Find(ctx, api, key));
  if (!config_map.has_value()) {
    return std::optional<MoverSettings>();
  }
  absl::StatusOr<MoverSettings> settings =
      ParseMoverSettings(GetString(*config_map, {"data", kSettingsKey}));
  RETURN_IF_ERROR(Annotate(settings.status(), absl::StrCat(ToString(key), ", ", kSettingsKey)));
  return std::optional<MoverSettings>(*std::move(settings));
}

absl::Status CheckWritesIntoExisting(const MoverSettings& settings) {
  return settings.writes_into_existing
             ? absl::OkStatus()
             : absl::FailedPreconditionError(
                   "the data mover writes into the volume of a PVC that exists only with the "
                   "setting restore.intoExistingVolumes, which is not set");
}

StorageClassSettings ForStorageClass(const MoverSettings& settings,
                                     absl::string_view storage_class) {
  const auto found = settings.storage_classes.find(std::string(storage_class));
  return found == settings.storage_classes.end() ? StorageClassSettings() : found->second;
}

const std::vector<CostlyBase>& CostlyBases() {
  static const auto& drivers = *new std::vector<CostlyBase>{
      {"csi.vsphere.vmware.com",
       "holds three snapshots per volume, and cannot delete a volume that has one"},
      {"local.csi.openebs.io", "reserves the volume's whole size again for a snapshot"},
  };
  return drivers;
}

bool KeepsBase(const MoverSettings& settings, absl::string_view driver) {
  const auto said = settings.keep_base.find(std::string(driver));
  if (said != settings.keep_base.end()) {
    return said->second;
  }
  const std::vector<CostlyBase>& costly = CostlyBases();
  return std::none_of(costly.begin(), costly.end(),
                      [driver](const CostlyBase& base) { return base.driver == driver; });
}

int64_t MemoryBudgetBytes(const WorkerResources& resources) {
  return std::max(kMemoryLeast, Bytes(resources.memory_limit)) - kControlBytes;
}

}  // namespace csidelta::datamover
