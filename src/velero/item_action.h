#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/call_context.h"
#include "base/check.h"
#include "objects/object.h"

namespace csidelta::velero {

struct ResourceIdentifier {
  std::string group;     // "" for the core group
  std::string resource;  // canonical plural
  std::string namespace_name;
  std::string name;

  bool operator==(const ResourceIdentifier&) const = default;
};

// Of a k8s::ObjectKey, which this folder does not know. Pure.
template <typename ObjectKey>
ResourceIdentifier Identify(const ObjectKey& key) {
  return {.group = key.type.group,
          .resource = key.type.plural,
          .namespace_name = key.namespace_name,
          .name = key.name};
}

// Which items an action wants. Empty lists mean everything.
struct ResourceSelector {
  std::vector<std::string> included_namespaces;
  std::vector<std::string> excluded_namespaces;
  std::vector<std::string> included_resources;  // "plural" or "plural.group"
  std::vector<std::string> excluded_resources;
  std::string label_selector;
};

// How far an asynchronous operation is. The host ignores `error` unless completed, and counts a
// completed operation with an empty `error` as a success.
struct OperationProgress {
  bool completed = false;
  std::string error;
  int64_t completed_units = 0;
  int64_t total_units = 0;
  std::string units;
  std::string description;
  std::optional<absl::Time> started;
  std::optional<absl::Time> updated;
};

struct BackupItemResult {
  std::optional<objects::Object> item;  // absent: the item goes back byte for byte
  std::vector<ResourceIdentifier> additional_items;
  std::string operation_id;  // "": no asynchronous operation
  std::vector<ResourceIdentifier> post_operation_items;
};

struct RestoreItemResult {
  std::optional<objects::Object> item;  // absent: the item goes back byte for byte
  std::vector<ResourceIdentifier> additional_items;
  bool skip_restore = false;
  std::string operation_id;
  bool wait_for_additional_items = false;
  absl::Duration additional_items_ready_timeout =
      absl::ZeroDuration();  // zero: the server's default
};

// How long an answer to Progress may take when the API server gives none. The host sets no deadline
// and asks about one operation after the other.
inline constexpr absl::Duration kProgressTimeMax = absl::Seconds(5);

// The four kinds of Velero item actions. One object serves every call of its kind and name; calls
// come concurrently and from several backups at once, so implementations are thread-safe and keep
// no state that matters. ctx ends when the process is asked to shut down; the host itself sets no
// deadline, so actions bound their own waits. An error fails the item (backup, restore), or is
// logged (delete). Execute is never asked to be quick; Progress answers at once, is given
// kProgressTimeMax at most, and reports trouble that may pass as "not completed".
class BackupItemAction {
 public:
  virtual ~BackupItemAction() = default;
  virtual ResourceSelector AppliesTo() const = 0;
  virtual absl::StatusOr<BackupItemResult> Execute(const CallContext& ctx,
                                                   const objects::Object& item,
                                                   const objects::Object& backup) = 0;
  // These two as they are: of an action that begins no operations.
  virtual absl::StatusOr<OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& backup);
  virtual absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                              const objects::Object& backup);
};

class RestoreItemAction {
 public:
  virtual ~RestoreItemAction() = default;
  virtual ResourceSelector AppliesTo() const = 0;
  // `item` as the host and the actions before rewrote it; `item_from_backup` as it stands in the
  // archive.
  virtual absl::StatusOr<RestoreItemResult> Execute(const CallContext& ctx,
                                                    const objects::Object& item,
                                                    const objects::Object& item_from_backup,
                                                    const objects::Object& restore) = 0;
  // These three as they are: of an action that begins no operations and waits for no items.
  virtual absl::StatusOr<OperationProgress> Progress(const CallContext& ctx,
                                                     absl::string_view operation_id,
                                                     const objects::Object& restore);
  virtual absl::Status Cancel(const CallContext& ctx, absl::string_view operation_id,
                              const objects::Object& restore);
  virtual absl::StatusOr<bool> AreAdditionalItemsReady(const CallContext& ctx,
                                                       const std::vector<ResourceIdentifier>& items,
                                                       const objects::Object& restore);
};

class DeleteItemAction {
 public:
  virtual ~DeleteItemAction() = default;
  virtual ResourceSelector AppliesTo() const = 0;
  virtual absl::Status Execute(const CallContext& ctx, const objects::Object& item,
                               const objects::Object& backup) = 0;
};

class ItemBlockAction {
 public:
  virtual ~ItemBlockAction() = default;
  virtual ResourceSelector AppliesTo() const = 0;
  virtual absl::StatusOr<std::vector<ResourceIdentifier>> GetRelatedItems(
      const CallContext& ctx, const objects::Object& item, const objects::Object& backup) = 0;
};

// An action, of one of these kinds, on the items of one resource.
template <typename Action>
class ActionOn : public Action {
 public:
  // `resource` as "plural" or "plural.group"; "*.group" stands for all of a group.
  // `label_selector`: "" for items with any labels.
  explicit ActionOn(std::string resource, std::string label_selector = "") {
    CSIDELTA_CHECK(!resource.empty());  // Empty lists mean everything.
    selector_.included_resources = {std::move(resource)};
    selector_.label_selector = std::move(label_selector);
  }

  ResourceSelector AppliesTo() const final { return selector_; }

 private:
  ResourceSelector selector_;
};

// The answer about an operation of a backup that was never begun: failed, and why. Pure.
OperationProgress UnknownOperation(absl::string_view id, absl::Time now);

}  // namespace csidelta::velero
