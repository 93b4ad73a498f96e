#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "velero/item_action.h"

namespace csidelta::plugin {

// Whether the host takes `name`: "prefix/rest" with one slash, the prefix a DNS subdomain.
bool IsPluginName(absl::string_view name);

// The actions of one kind, by name, in the order in which they were added. Filled before the server
// starts, only read afterwards, then from any thread.
template <typename Action>
class ActionTable {
 public:
  struct Entry {
    std::string name;
    std::unique_ptr<Action> action;
    bool placeholder = false;
  };

  // REQUIRES a valid name that is new to this table: the host's server exits on any other.
  void Add(std::string name, std::unique_ptr<Action> action) {
    CSIDELTA_CHECK(IsPluginName(name) && action != nullptr && !Find(name).ok());
    entries_.push_back({std::move(name), std::move(action)});
  }

  // As Add, for a name that another plugin or the host itself may bring: listed only where the name
  // is missed and free.
  void AddPlaceholder(std::string name, std::unique_ptr<Action> action) {
    Add(std::move(name), std::move(action));
    entries_.back().placeholder = true;
  }

  // NOT_FOUND names what was asked for. Borrowed.
  absl::StatusOr<Action*> Find(absl::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.name == name) {
        return entry.action.get();
      }
    }
    return absl::NotFoundError(absl::StrCat("plugin ", name, " not found"));
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// Everything that this binary offers to the host. Owns the actions.
struct Registry {
  ActionTable<velero::BackupItemAction> backup;
  ActionTable<velero::RestoreItemAction> restore;
  ActionTable<velero::DeleteItemAction> deletion;
  ActionTable<velero::ItemBlockAction> item_block;
};

}  // namespace csidelta::plugin
