#include "datamover/settings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/go_duration.h"
#include "base/json_section.h"
#include "base/quantity.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/differential_snapshot.h"

namespace csidelta::datamover {
namespace {

constexpr std::size_t kTextBytesMax = 64 << 10;
constexpr int64_t kValuesMax = 10'000;
constexpr int64_t kTransfersMax = 1000;
constexpr int64_t kDeletionWorkersMax = 100;
constexpr int64_t kKibPerSecondMax = 1'000'000'000;
// Of all workers together, and for each of those that may run at once.
constexpr int64_t kSharedKibMin = 256;
constexpr int64_t kShareKibMin = 16;
constexpr std::size_t kWindowsMax = 24;
constexpr int64_t kGroupMax = int64_t{1} << 31;
constexpr int64_t kMemoryLeast = int64_t{128} << 20;
// Watching the task and writing its status.
constexpr int64_t kControlBytes = int64_t{32} << 20;

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

void ReadQuantity(JsonSection& section, const std::string& key, std::string& out) {
  section.Text(key, out, "a quantity above 0, such as \"256Mi\" or \"100m\"", IsQuantity);
}

void ReadName(JsonSection& section, const std::string& key, std::string& out) {
  section.Text(key, out, "a name of 1 to 253 bytes",
               [](absl::string_view text) { return !text.empty() && text.size() <= 253; });
}

void ReadCount(JsonSection& section, const std::string& key, int64_t most, int& out) {
  int64_t count = out;
  section.Number(key, 1, most, count);
  out = static_cast<int>(count);
}

void ReadSelector(JsonSection& section, std::map<std::string, std::string>& out) {
  section.Texts("nodeSelector", out, "the value of a node's label",
                [](absl::string_view name, absl::string_view value) {
                  return !name.empty() && IsLabelValue(value);
                });
}

void ReadResources(JsonSection& section, WorkerResources& out) {
  section.Inner("requests", [&out](JsonSection& requests) {
    ReadQuantity(requests, "cpu", out.cpu_request);
    ReadQuantity(requests, "memory", out.memory_request);
  });
  section.Inner("limits", [&out](JsonSection& limits) {
    ReadQuantity(limits, "cpu", out.cpu_limit);
    limits.Text("memory", out.memory_limit, "a quantity of at least 128Mi",
                [](const std::string& text) { return Bytes(text) >= kMemoryLeast; });
  });
}

void ReadPodSecurity(JsonSection& section, bool& has_fixed_user) {
  std::string text = has_fixed_user ? "fixed" : "namespace";
  section.Text("podSecurity", text, "fixed or namespace",
               [](absl::string_view value) { return value == "fixed" || value == "namespace"; });
  has_fixed_user = text == "fixed";
}

void ReadWorker(JsonSection& section, WorkerSettings& out) {
  section.Inner("resources",
                [&out](JsonSection& resources) { ReadResources(resources, out.resources); });
  ReadQuantity(section, "scratchSize", out.scratch_size);
  section.Number("limitUpload", 1, kKibPerSecondMax, out.rates_max.upload);
  section.Number("limitDownload", 1, kKibPerSecondMax, out.rates_max.download);
  section.NumberList("supplementalGroups", 1, kGroupMax - 1, out.supplemental_groups,
                     "a list of group numbers above 0");
  ReadPodSecurity(section, out.has_fixed_user);
  ReadName(section, "priorityClassName", out.priority_class);
  section.Text("imagePullPolicy", out.image_pull_policy, "Always, IfNotPresent or Never",
               [](absl::string_view text) {
                 return text == "Always" || text == "IfNotPresent" || text == "Never";
               });
  section.TextList("imagePullSecrets", out.image_pull_secrets, "a list of names of Secrets",
                   [](absl::string_view name) { return !name.empty(); });
  section.Texts("podLabels", out.pod_labels,
                "the value of a label that is not reserved by csi-delta or Velero",
                [](absl::string_view name, absl::string_view value) {
                  return !name.empty() && !IsReserved(name) && IsLabelValue(value);
                });
  section.Texts(
      "podAnnotations", out.pod_annotations,
      "the text of an annotation that is not reserved by csi-delta or Velero",
      [](absl::string_view name, absl::string_view) { return !name.empty() && !IsReserved(name); });
  ReadSelector(section, out.node_selector);
  objects::ReadTolerations(section, "tolerations", out.tolerations);
  objects::ReadAffinity(section, "affinity", out.affinity);
}

void ReadDuration(JsonSection& section, const std::string& key, absl::Duration least,
                  absl::Duration most, absl::string_view legal, absl::Duration& out) {
  std::string text;
  section.Text(key, text, legal, [&](absl::string_view value) {
    const absl::StatusOr<absl::Duration> duration = ParseGoDuration(value);
    return duration.ok() && *duration >= least && *duration <= most;
  });
  if (!text.empty()) {
    out = *ParseGoDuration(text);
  }
}

void ReadWindows(JsonSection& section, std::vector<DailyWindow>& out) {
  section.EachText("uploadWindows", kWindowsMax,
                   "a list of times of the day in UTC, such as [\"22:00-06:00\"]",
                   [&out](const std::string& text) {
                     const std::optional<DailyWindow> window = ParseDailyWindow(text);
                     if (window.has_value()) {
                       out.push_back(*window);
                     }
                     return window.has_value();
                   });
}

void ReadImmutability(JsonSection& section, StorageLocationSettings& out) {
  section.Inner("immutability", [&out](JsonSection& immutability) {
    objects::JobObjectLock lock;
    immutability.Number("days", objects::kObjectLockDaysMin, objects::kObjectLockDaysMax,
                        lock.days);
    std::string mode;
    immutability.Text("mode", mode, "governance or compliance", [](absl::string_view text) {
      return text == "governance" || text == "compliance";
    });
    immutability.Require("days", lock.days > 0 || immutability.Take("days") != nullptr);
    immutability.Require("mode", !mode.empty() || immutability.Take("mode") != nullptr);
    lock.mode = absl::AsciiStrToUpper(mode);
    out.immutability = lock;
  });
}

void ReadLocation(JsonSection& section, StorageLocationSettings& out) {
  ReadCount(section, "limit", kTransfersMax, out.transfers_max);
  ReadImmutability(section, out);
  section.Inner("deletionCredential", [&out](JsonSection& credential) {
    ReadName(credential, "name", out.deletion_credential.name);
    ReadName(credential, "key", out.deletion_credential.key);
    credential.Require("name", credential.Take("name") != nullptr);
    credential.Require("key", credential.Take("key") != nullptr);
  });
}

// What daily checks are to do needs them.
absl::Status CheckLocksAreRenewed(const MoverSettings& settings) {
  for (const auto& [name, location] : settings.locations) {
    if (location.immutability.has_value() && settings.checks.percent_per_day == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("backupStorageLocations.", name,
                       ".immutability needs the daily checks, which renew the object locks; set "
                       "checks.percentPerDay to at least 1"));
    }
  }
  return absl::OkStatus();
}

// No worker is left without a share.
absl::Status CheckSharesSuffice(const MoverSettings& settings) {
  const int64_t least = kShareKibMin * WorkersMax(settings);
  for (const auto& [name, rate] :
       {std::pair("uploadKiBPerSecond", settings.rates_max.upload),
        std::pair("downloadKiBPerSecond", settings.rates_max.download)}) {
    if (rate > 0 && rate < least) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limits.", name, ": ", rate, " is less than ", kShareKibMin, " for each of the ",
          WorkersMax(settings), " workers that may run at once; set it to at least ", least,
          ", or lower limits.total, deletions.workers or checks.workers"));
    }
  }
  return absl::OkStatus();
}

void ReadProxy(JsonSection& section, net::ProxySettings& out) {
  section.Text("https", out.https_proxy, "http://[user:password@]host[:port] of an HTTP proxy",
               [](const std::string& text) {
                 return net::ProxyFor({}, {.always = text, .https_proxy = "", .no_proxy = ""}).ok();
               });
  section.Text("noProxy", out.no_proxy, "a list of hosts, joined by commas without spaces",
               [](const std::string& text) {
                 return std::none_of(text.begin(), text.end(), absl::ascii_isspace);
               });
}

void ReadChecks(JsonSection& section, CheckSettings& out) {
  int64_t percent = out.percent_per_day;
  section.Number("percentPerDay", 0, 100, percent);
  out.percent_per_day = static_cast<int>(percent);
  ReadCount(section, "workers", kTransfersMax, out.workers);
}

// What is set for a name; the defaults if nothing is.
template <typename Value>
Value ValueOf(const std::map<std::string, Value>& values, absl::string_view name) {
  const auto found = values.find(std::string(name));
  return found == values.end() ? Value() : found->second;
}

void ReadDriverParameters(JsonSection& section, std::vector<std::string>& out) {
  std::map<std::string, std::string> all;
  section.Texts("parameters", all,
                "one of at most 32 parameters, of 1024 bytes and 4096 in all, without \"=\" in its "
                "name, whose name Kubernetes does not reserve",
                [&all](const std::string& name, const std::string& text) {
                  std::map<std::string, std::string> with = all;
                  with[name] = text;
                  return !absl::StrContains(name, '=') && objects::AreDriverParameters(with);
                });
  for (const auto& [name, text] : all) {
    out.push_back(absl::StrCat(name, "=", text));
  }
}

void ReadAll(JsonSection& section, MoverSettings& out) {
  section.Flag("paused", out.is_paused);
  ReadWindows(section, out.upload_windows);
  ReadDuration(section, "prepareTimeout", absl::Minutes(1), absl::Hours(24),
               "a duration from 1m to 24h, such as \"30m\"", out.prepare_timeout);
  std::string on_fallback = ToString(out.on_fallback);
  section.Text("onFallback", on_fallback, "proceed, warn or fail",
               [](absl::string_view text) { return objects::ParseOnFallback(text).has_value(); });
  out.on_fallback = objects::ParseOnFallback(on_fallback).value_or(out.on_fallback);
  section.Inner("limits", [&out](JsonSection& limits) {
    ReadCount(limits, "total", kTransfersMax, out.transfers_max);
    ReadCount(limits, "perNode", kTransfersMax, out.transfers_per_node_max);
    ReadCount(limits, "perNamespace", kTransfersMax, out.transfers_per_namespace_max);
    limits.Number("uploadKiBPerSecond", kSharedKibMin, kKibPerSecondMax, out.rates_max.upload);
    limits.Number("downloadKiBPerSecond", kSharedKibMin, kKibPerSecondMax, out.rates_max.download);
  });
  section.Inner("restore", [&out](JsonSection& restore) {
    restore.Flag("ignoreDelayBinding", out.ignore_delay_binding);
    restore.Flag("intoExistingVolumes", out.writes_into_existing);
  });
  section.Sections("storageClasses", [&out](const std::string& name, JsonSection& one) {
    StorageClassSettings& settings = out.storage_classes[name];
    ReadName(one, "intermediateClass", settings.intermediate_class);
    one.Flag("readOnlyMany", settings.read_only_many);
    ReadCount(one, "limit", kTransfersMax, settings.transfers_max);
    ReadSelector(one, settings.node_selector);
  });
  section.Sections("backupStorageLocations", [&out](const std::string& name, JsonSection& one) {
    ReadLocation(one, out.locations[name]);
  });
  section.Sections("drivers", [&out](const std::string& name, JsonSection& one) {
    bool keep_base = true;
    one.Flag("keepBase", keep_base);
    if (one.Take("keepBase") != nullptr) {
      out.keep_base[name] = keep_base;
    }
    ReadDriverParameters(one, out.driver_parameters[name]);
  });
  section.Inner("bases", [&out](JsonSection& bases) {
    ReadDuration(bases, "maxAge", absl::Hours(1), absl::Hours(8760),
                 "a duration from 1h to 8760h, such as \"336h\"", out.base_age_max);
  });
  section.Inner("deletions", [&out](JsonSection& deletions) {
    ReadCount(deletions, "workers", kDeletionWorkersMax, out.deletions.workers_max);
    ReadDuration(deletions, "giveUpAfter", absl::Hours(1), absl::Hours(8760),
                 "a duration from 1h to 8760h, such as \"168h\"", out.deletions.give_up_after);
  });
  section.Inner("checks", [&out](JsonSection& checks) { ReadChecks(checks, out.checks); });
  section.Inner("worker", [&out](JsonSection& worker) { ReadWorker(worker, out.worker); });
  section.Inner("proxy", [&out](JsonSection& proxy) { ReadProxy(proxy, out.proxy); });
  section.Inner("records", [&out](JsonSection& records) {
    ReadDuration(records, "keepAfterPvc", absl::ZeroDuration(), absl::Hours(8760),
                 "a duration from 0s to 8760h, such as \"720h\"", out.records.keep_after_pvc);
    ReadDuration(records, "staleAfter", absl::Hours(1), absl::Hours(8760),
                 "a duration from 1h to 8760h, such as \"48h\"", out.records.stale_after);
  });
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
  RETURN_IF_ERROR(
      ReadJsonText(text, kValuesMax, [&settings](JsonSection& all) { ReadAll(all, settings); }));
  RETURN_IF_ERROR(CheckLocksAreRenewed(settings));
  RETURN_IF_ERROR(CheckSharesSuffice(settings));
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
  const k8s::ObjectKey key = objects::ConfigMap::Key(mover_namespace, kSettingsConfigMap);
  ASSIGN_OR_RETURN(const std::optional<objects::ConfigMap> config_map,
                   objects::Find<objects::ConfigMap>(ctx, api, key));
  if (!config_map.has_value()) {
    return std::optional<MoverSettings>();
  }
  return Annotate(ParseMoverSettings(config_map->Value(kSettingsKey)),
                  absl::StrCat(ToString(key), ", ", kSettingsKey));
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
  return ValueOf(settings.storage_classes, storage_class);
}

StorageLocationSettings ForLocation(const MoverSettings& settings, absl::string_view location) {
  return ValueOf(settings.locations, location);
}

std::vector<std::string> ParametersFor(const MoverSettings& settings, absl::string_view driver) {
  return ValueOf(settings.driver_parameters, driver);
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
  const auto known = settings.keep_base.find(std::string(driver));
  if (known != settings.keep_base.end()) {
    return known->second;
  }
  const std::vector<CostlyBase>& costly = CostlyBases();
  return std::none_of(costly.begin(), costly.end(),
                      [driver](const CostlyBase& base) { return base.driver == driver; });
}

int WorkersMax(const MoverSettings& settings) {
  return settings.transfers_max + settings.deletions.workers_max + settings.checks.workers;
}

objects::JobRates FirstRates(const MoverSettings& settings) {
  const objects::JobRates &all = settings.rates_max, &one = settings.worker.rates_max;
  return {.upload = all.upload > 0 ? kFirstKib : one.upload,
          .download = all.download > 0 ? kFirstKib : one.download};
}

int64_t MemoryBudgetBytes(const WorkerResources& resources) {
  return std::max(kMemoryLeast, Bytes(resources.memory_limit)) - kControlBytes;
}

}  // namespace csidelta::datamover
