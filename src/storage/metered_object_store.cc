#include "storage/metered_object_store.h"

namespace csidelta::storage {

absl::Status MeteredObjectStore::Pass(const CallContext& ctx, const PassedCall& call,
                                      absl::FunctionRef<absl::Status(const CallContext&)> pass) {
  absl::Status status = pass(ctx);
  switch (call.kind) {
    case CallKind::kGet:
      meter_.Add(&StoreUsage::got_bytes, call.got_bytes);
      [[fallthrough]];
    case CallKind::kGetVersioned:
      meter_.Add(&StoreUsage::get_requests, 1);
      break;
    case CallKind::kPut:
      meter_.Add(&StoreUsage::put_bytes, status.ok() ? call.bytes : 0);
      meter_.Add(&StoreUsage::put_objects, status.ok() ? 1 : 0);
      [[fallthrough]];
    case CallKind::kPutVersioned:
      meter_.Add(&StoreUsage::put_requests, 1);
      break;
    case CallKind::kStat:
      meter_.Add(&StoreUsage::stat_requests, 1);
      break;
    case CallKind::kList:
    case CallKind::kListVersions:
      meter_.Add(&StoreUsage::list_requests, 1);
      break;
    case CallKind::kDelete:
    case CallKind::kDeleteVersion:
      meter_.Add(&StoreUsage::delete_requests, 1);
      break;
    case CallKind::kRemoveLeftovers:
      return status;
  }
  meter_.Add(&StoreUsage::failed_requests, status.ok() ? 0 : 1);
  return status;
}

}  // namespace csidelta::storage
