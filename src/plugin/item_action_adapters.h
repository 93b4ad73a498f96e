#pragma once

#include <memory>

#include "DeleteItemAction.grpc.pb.h"
#include "backupitemaction/v2/BackupItemAction.grpc.pb.h"
#include "itemblockaction/v1/ItemBlockAction.grpc.pb.h"
#include "plugin/call_tracker.h"
#include "plugin/registry.h"
#include "restoreitemaction/v2/RestoreItemAction.grpc.pb.h"

namespace csidelta::plugin {

// Put the actions of one kind on the wire, for all names of that kind. Borrow both. Thread-safe.
std::unique_ptr<v2::BackupItemAction::Service> MakeAdapter(
    const ActionTable<velero::BackupItemAction>& actions, CallTracker& calls);
std::unique_ptr<v2::RestoreItemAction::Service> MakeAdapter(
    const ActionTable<velero::RestoreItemAction>& actions, CallTracker& calls);
std::unique_ptr<generated::DeleteItemAction::Service> MakeAdapter(
    const ActionTable<velero::DeleteItemAction>& actions, CallTracker& calls);
std::unique_ptr<v1::ItemBlockAction::Service> MakeAdapter(
    const ActionTable<velero::ItemBlockAction>& actions, CallTracker& calls);

}  // namespace csidelta::plugin
