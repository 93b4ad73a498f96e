#include "deleteitemactions/undeleted.h"

#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/crypto.h"
#include "base/human_text.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "objects/client.h"
#include "objects/core.h"
#include "objects/keys.h"

namespace csidelta::deleteitemactions {
namespace {

using objects::ConfigMap;

// Together less than the 1 MiB that a ConfigMap may have.
constexpr std::size_t kEntriesMax = 1000;
constexpr std::size_t kEntryBytesMax = 900;
constexpr std::size_t kKeyDigits = 32;

absl::Status WriteEntry(const CallContext& ctx, const csi::Environment& env,
                        const std::string& namespace_name, const std::string& entry,
                        const std::string& text) {
  const k8s::ObjectKey key = ConfigMap::Key(namespace_name, objects::kUndeletedConfigMap);
  ASSIGN_OR_RETURN(auto record, objects::Find<ConfigMap>(ctx, env.api, key));
  if (!record.has_value()) {
    ConfigMap made = ConfigMap::Make(namespace_name, objects::kUndeletedConfigMap);
    made.SetLabel(objects::kExcludeFromBackupLabel, "true");
    ASSIGN_OR_RETURN(record, objects::CreateOrGet(ctx, env.api, made));
  }
  const std::map<std::string, std::string> entries = record->data();
  return entries.contains(entry) || entries.size() >= kEntriesMax
             ? absl::OkStatus()
             : objects::Apply(ctx, env.api, key, objects::Patch().SetEntry(entry, text));
}

}  // namespace

absl::Status RecordUndeleted(const CallContext& ctx, const csi::Environment& env,
                             const UndeletedData& data, absl::string_view why) {
  const std::string backup = data.backup.name();
  CSIDELTA_LOG(kWarn, "data of a deleted backup stays: it can never be deleted from this cluster",
               {"backup", backup}, {"data", data.text}, {"reason", std::string(why)});
  const std::string text =
      absl::StrCat(FormatRfc3339(env.clock.Now()), " backup ", backup, ": ", data.text, ": ", why);
  const std::string entry = Sha256Hex(absl::StrCat(backup, "/", data.text)).substr(0, kKeyDigits);
  const absl::Status written =
      WriteEntry(ctx, env, data.backup.namespace_name(), entry, CutText(text, kEntryBytesMax));
  if (absl::IsPermissionDenied(written) || absl::IsInvalidArgument(written)) {
    CSIDELTA_LOG(kWarn, "doctor cannot list data that stays: the record was not written",
                 {"config_map", objects::kUndeletedConfigMap}, {"status", written.ToString()});
    return absl::OkStatus();
  }
  return Annotate(written, absl::StrCat("record that ", data.text, " stays"));
}

absl::Status ConcludeDeletion(const CallContext& ctx, const csi::Environment& env,
                              const UndeletedData& data, const absl::Status& status,
                              absl::FunctionRef<absl::Status()> find_kind) {
  const bool is_final = absl::IsInvalidArgument(status) ||
                        (absl::IsNotFound(status) && absl::IsNotFound(find_kind()));
  return is_final ? RecordUndeleted(ctx, env, data, status.message()) : status;
}

}  // namespace csidelta::deleteitemactions
