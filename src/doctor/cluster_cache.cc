#include "doctor/cluster_cache.h"

#include "absl/strings/str_cat.h"
#include "objects/data_transfer.h"
#include "objects/keys.h"

namespace csidelta::doctor {
namespace {

// One list that hangs must not take the time of all checks.
constexpr absl::Duration kListTimeMax = absl::Seconds(20);
constexpr int kPageItemsMax = 500;  // that are held whole at once

bool IsTransfer(const k8s::ResourceType& type) {
  return type == objects::DataUpload::Type() || type == objects::DataDownload::Type();
}

// What checks need of a transfer: of very many, most are over.
objects::Object Reduced(objects::Object object) {
  absl::StatusOr<objects::DataTransfer> transfer = objects::DataTransfer::From(object);
  if (!transfer.ok()) {
    return object;
  }
  if (transfer->is_over()) {
    const std::string mode = transfer->Annotation(objects::kUploadModeAnnotation);
    const std::string read_bytes = transfer->Annotation(objects::kReadBytesAnnotation);
    transfer->ReduceToOutcome(objects::kAdmittedAtAnnotation);
    if (mode == "full") {  // They tell how fast the next one will be.
      transfer->SetAnnotation(objects::kUploadModeAnnotation, mode);
      transfer->SetAnnotation(objects::kReadBytesAnnotation, read_bytes);
    }
  } else {
    transfer->RemoveManagedFields();
  }
  return *std::move(transfer);
}

// In pages: an API server answers a list that may be old in one piece, which is 69 MB of 15,000
// DataUploads, more than a client takes.
absl::StatusOr<std::vector<objects::Object>> ListAll(const CallContext& ctx, k8s::ApiClient& api,
                                                     const k8s::ResourceType& type,
                                                     absl::string_view namespace_name) {
  std::vector<objects::Object> all;
  RETURN_IF_ERROR(objects::ReadPages<objects::Object>(
      ctx, api, type, namespace_name,
      {.label_selector = "", .field_selector = "", .page_items_max = kPageItemsMax},
      objects::ForEach<objects::Object>(
          [&] { all.clear(); },
          [&](objects::Object object) {
            all.push_back(IsTransfer(type) ? Reduced(std::move(object)) : std::move(object));
          })));
  return all;
}

}  // namespace

const absl::StatusOr<std::vector<objects::Object>>& ClusterCache::List(
    const k8s::ResourceType& type, absl::string_view namespace_name) {
  const Key key = {k8s::ToString(type), std::string(namespace_name)};
  auto found = lists_.find(key);
  if (found == lists_.end()) {
    found = lists_.emplace(key, ListAll(ctx_.WithTimeout(kListTimeMax), api_, type, namespace_name))
                .first;
  }
  return found->second;
}

absl::StatusOr<objects::Object> ClusterCache::Find(const k8s::ResourceType& type,
                                                   absl::string_view namespace_name,
                                                   absl::string_view name) {
  const absl::StatusOr<std::vector<objects::Object>>& list = List(type, namespace_name);
  RETURN_IF_ERROR(list.status());
  for (const objects::Object& object : *list) {
    if (object.name() == name) {
      return object;
    }
  }
  return absl::NotFoundError(absl::StrCat("there is no ", type.kind, " ", name));
}

}  // namespace csidelta::doctor
