#include "plugin/convert.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/status_macros.h"

namespace csidelta::plugin {
namespace {

constexpr int64_t kYearOneUnixSeconds = -62135596800;
constexpr int64_t kYear9999UnixSeconds = 253402300799;  // The last that a Timestamp may hold.

template <typename Repeated>
void AppendTexts(const std::vector<std::string>& texts, Repeated* to) {
  for (const std::string& text : texts) {
    *to->Add() = ToUtf8(text);
  }
}

template <typename Timestamp>
void SetTime(const std::optional<absl::Time>& time, Timestamp* to) {
  int64_t seconds = kYearOneUnixSeconds;
  int64_t nanos = 0;
  if (time) {
    seconds = absl::ToUnixSeconds(*time);
    nanos = absl::ToInt64Nanoseconds(*time - absl::FromUnixSeconds(seconds));
  }
  if (seconds < kYearOneUnixSeconds || seconds > kYear9999UnixSeconds) {
    seconds = kYearOneUnixSeconds;
    nanos = 0;
  }
  to->set_seconds(seconds);
  to->set_nanos(static_cast<int32_t>(nanos));
}

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

absl::StatusOr<objects::Object> DecodeItem(absl::string_view field, const std::string& bytes) {
  ASSIGN_OR_RETURN(objects::Object item, DecodeOwner(field, bytes));
  if (item.kind().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": object without a kind"));
  }
  return item;
}

absl::StatusOr<objects::Object> DecodeOwner(absl::string_view field, const std::string& bytes) {
  absl::StatusOr<Json> owner = ParseJsonObject(bytes);
  if (!owner.ok()) {
    return Annotate(owner.status(), field);
  }
  return objects::Object(*std::move(owner));
}

absl::StatusOr<std::string> EncodeItem(const std::optional<objects::Object>& changed,
                                       const objects::Object& item, const std::string& item_bytes) {
  if (!changed || *changed == item) {
    return item_bytes;
  }
  if (changed->kind().empty()) {
    return absl::InternalError("the action answered with something that is no Kubernetes object");
  }
  return DumpJson(changed->json());
}

generated::ResourceSelector ToProto(const velero::ResourceSelector& selector) {
  generated::ResourceSelector proto;
  AppendTexts(selector.included_namespaces, proto.mutable_includednamespaces());
  AppendTexts(selector.excluded_namespaces, proto.mutable_excludednamespaces());
  AppendTexts(selector.included_resources, proto.mutable_includedresources());
  AppendTexts(selector.excluded_resources, proto.mutable_excludedresources());
  proto.set_selector(ToUtf8(selector.label_selector));
  return proto;
}

generated::ResourceIdentifier ToProto(const velero::ResourceIdentifier& identifier) {
  generated::ResourceIdentifier proto;
  proto.set_group(ToUtf8(identifier.group));
  proto.set_resource(ToUtf8(identifier.resource));
  proto.set_namespace_(ToUtf8(identifier.namespace_name));
  proto.set_name(ToUtf8(identifier.name));
  return proto;
}

velero::ResourceIdentifier FromProto(const generated::ResourceIdentifier& identifier) {
  return {.group = identifier.group(),
          .resource = identifier.resource(),
          .namespace_name = identifier.namespace_(),
          .name = identifier.name()};
}

generated::OperationProgress ToProto(const velero::OperationProgress& progress) {
  generated::OperationProgress proto;
  proto.set_completed(progress.completed);
  proto.set_err(ToErrorText(progress.error));
  proto.set_ncompleted(progress.completed_units);
  proto.set_ntotal(progress.total_units);
  proto.set_operationunits(ToUtf8(progress.units));
  proto.set_description(ToErrorText(progress.description));
  SetTime(progress.started, proto.mutable_started());
  SetTime(progress.updated, proto.mutable_updated());
  return proto;
}

absl::StatusOr<generated::OperationProgress> EncodeProgress(
    const absl::StatusOr<velero::OperationProgress>& progress) {
  if (progress.ok()) {
    return ToProto(*progress);
  }
  const absl::Status& status = progress.status();
  if (IsRetryable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) {
    velero::OperationProgress unknown;
    unknown.description = std::string(status.message());
    return ToProto(unknown);
  }
  return status;
}

std::string ToUtf8(absl::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length_bytes = Utf8Bytes(text);
    const absl::string_view piece = length_bytes == 0 ? kReplacement : text.substr(0, length_bytes);
    clean.append(piece.data(), piece.size());
    text.remove_prefix(std::max<std::size_t>(length_bytes, 1));
  }
  return clean;
}

std::string ToErrorText(absl::string_view text) {
  std::string clean = ToUtf8(text.substr(0, kErrorTextBytesMax));
  if (text.size() > kErrorTextBytesMax) {
    // The cut may have split a character, which then ended as replacements.
    while (clean.size() >= kReplacement.size() &&
           clean.compare(clean.size() - kReplacement.size(), kReplacement.size(),
                         kReplacement.data(), kReplacement.size()) == 0) {
      clean.resize(clean.size() - kReplacement.size());
    }
    clean += "…";
  }
  return clean;
}

}  // namespace csidelta::plugin
