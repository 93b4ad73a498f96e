#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/crypto.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/block_messages.h"
#include "tests/support/csi_driver/call.h"
#include "tests/support/csi_driver/lying_list.h"
#include "tests/support/csi_driver/services.h"

namespace csidelta::csi_driver {
namespace {

namespace differential = ::csi::differentialsnapshot::v1;

constexpr char kMethod[] = "GetDifferentialSnapshot";
constexpr char kBlockMode[] = "Block";
constexpr char kContextParameter[] = "context";
constexpr uint64_t kLongAgoSeconds = 1'000'000'000;
constexpr size_t kDigestDigits = 16;

// Where a page begins, and until when the result is kept that it is a page of.
struct Cursor {
  int64_t offset_bytes = 0;
  int64_t expires_at_s = 0;  // 0: never.
};

// A cursor that says nothing to anybody else, and belongs to one pair.
std::string Seal(const Cursor& cursor, const differential::DifferentialSnapshotRequest& request) {
  const std::string text = absl::StrCat(cursor.offset_bytes, ".", cursor.expires_at_s);
  const std::string digest =
      Sha256Hex(absl::StrCat(request.snapshot_base(), "\n", request.snapshot_target(), "\n", text));
  return absl::WebSafeBase64Escape(absl::StrCat(text, ".", digest.substr(0, kDigestDigits)));
}

absl::StatusOr<Cursor> Unseal(const differential::DifferentialSnapshotRequest& request) {
  std::string text;
  Cursor cursor;
  const bool decoded = absl::WebSafeBase64Unescape(request.start_offset(), &text);
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  if (!decoded || parts.size() != 3 || !absl::SimpleAtoi(parts[0], &cursor.offset_bytes) ||
      !absl::SimpleAtoi(parts[1], &cursor.expires_at_s) ||
      Seal(cursor, request) != request.start_offset()) {
    return absl::InvalidArgumentError("start_offset is no cursor of this pair");
  }
  return cursor;
}

class DifferentialSnapshotService final : public differential::DifferentialSnapshot::Service {
 public:
  DifferentialSnapshotService(const DriverOptions& options, Faults& faults, Store& store,
                              const Clock& clock)
      : options_(options), faults_(faults), store_(store), clock_(clock) {}

  grpc::Status GetDifferentialSnapshot(
      grpc::ServerContext* context, const differential::DifferentialSnapshotRequest* request,
      differential::DifferentialSnapshotResponse* response) override {
    return ServeCall(faults_, kMethod, context, *request, [&](const Verdict& verdict) {
      return Answer(*request, verdict, context, response);
    });
  }

 private:
  absl::Status Answer(const differential::DifferentialSnapshotRequest& request,
                      const Verdict& verdict, grpc::ServerContext* context,
                      differential::DifferentialSnapshotResponse* response) {
    RETURN_IF_ERROR(Check(request));
    ASSIGN_OR_RETURN(const Cursor cursor, ReadCursor(request));
    ChangeQuery query{.target_id = request.snapshot_target(),
                      .base_id = {},
                      .starting_offset_bytes = cursor.offset_bytes};
    if (!request.snapshot_base().empty()) {
      query.base_id = request.snapshot_base();
    }
    BlockOptions blocks = options_.blocks;
    blocks.mark_zero = true;
    ASSIGN_OR_RETURN(const std::unique_ptr<LyingList> list,
                     LyingList::Open(store_, query, blocks, verdict));
    response->set_volume_size(static_cast<uint64_t>(list->capacity_bytes()));
    response->set_timeout(static_cast<uint64_t>(cursor.expires_at_s));
    RETURN_IF_ERROR(FillPage(request, cursor, *list, response));
    return MeetFaults(request, cursor, verdict, context, response);
  }

  absl::Status Check(const differential::DifferentialSnapshotRequest& request) const {
    if (!options_.differential_snapshot) {
      return absl::UnimplementedError("this driver has no differential snapshots");
    }
    if (!request.mode().empty() && request.mode() != kBlockMode) {
      return absl::UnimplementedError(absl::StrCat("no mode but Block: ", request.mode()));
    }
    const absl::StatusOr<SnapshotRecord> target = store_.GetSnapshot(request.snapshot_target());
    if (!request.volume_id().empty() && target.ok() && target->volume_id != request.volume_id()) {
      return absl::InvalidArgumentError(
          absl::StrCat(request.snapshot_target(), " is not of volume ", request.volume_id()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Cursor> ReadCursor(
      const differential::DifferentialSnapshotRequest& request) const {
    const int64_t now_s = absl::ToUnixSeconds(clock_.Now());
    Cursor cursor;
    if (options_.result_seconds > 0) {
      cursor.expires_at_s = now_s + options_.result_seconds;
    }
    if (request.start_offset().empty()) {
      return cursor;
    }
    if (!options_.opaque_cursors) {
      if (!absl::SimpleAtoi(request.start_offset(), &cursor.offset_bytes)) {
        return absl::InvalidArgumentError("start_offset is no number");
      }
      return cursor;
    }
    ASSIGN_OR_RETURN(cursor, Unseal(request));
    if (cursor.expires_at_s != 0 && cursor.expires_at_s < now_s) {
      return absl::NotFoundError("the result is not kept any more");
    }
    return cursor;
  }

  std::string NameOf(const Cursor& cursor,
                     const differential::DifferentialSnapshotRequest& request) const {
    return options_.opaque_cursors ? Seal(cursor, request) : absl::StrCat(cursor.offset_bytes);
  }

  // Ends the page where one extent more would come: without it there is no next page.
  absl::Status FillPage(const differential::DifferentialSnapshotRequest& request, Cursor cursor,
                        LyingList& list,
                        differential::DifferentialSnapshotResponse* response) const {
    const int64_t asked =
        static_cast<int64_t>(std::min<uint64_t>(request.max_entries(), kMessageExtentsMax));
    const int64_t extents_max = ExtentsPerMessage(asked, options_.page_extents);
    const auto context = request.parameters().find(kContextParameter);
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<ListedExtent> next, list.Next());
      if (!next.has_value()) {
        return absl::OkStatus();
      }
      if (response->change_block_list_size() == extents_max) {
        response->set_next_offset(NameOf(cursor, request));
        return absl::OkStatus();
      }
      const Extent& extent = next->extent;
      differential::ChangedBlock& block = *response->add_change_block_list();
      block.set_offset(static_cast<uint64_t>(extent.offset_bytes));
      block.set_size(static_cast<uint64_t>(extent.length_bytes));
      block.set_zero_out(next->zero);
      if (context != request.parameters().end()) {
        block.set_context(absl::StrCat(context->second, extent.offset_bytes));
      }
      if (IsWellFormed(extent)) {
        cursor.offset_bytes = extent.end_bytes();
      }
    }
  }

  // The page is the only message of its stream.
  absl::Status MeetFaults(const differential::DifferentialSnapshotRequest& request,
                          const Cursor& start, const Verdict& verdict, grpc::ServerContext* context,
                          differential::DifferentialSnapshotResponse* response) {
    for (const StreamFault& fault : verdict.stream) {
      if (!fault.HappensAt(0)) {
        continue;
      }
      if (!faults_.Pause(kMethod, fault, [context] { return context->IsCancelled(); })) {
        return absl::CancelledError("the caller went away");
      }
      RETURN_IF_ERROR(fault.error);
      TellLies(fault, request, start, response);
    }
    return absl::OkStatus();
  }

  void TellLies(const StreamFault& fault, const differential::DifferentialSnapshotRequest& request,
                const Cursor& start, differential::DifferentialSnapshotResponse* response) const {
    if (fault.lies.contains(Lie::kEmptyMessage)) {
      response->clear_change_block_list();
    }
    if (fault.lies.contains(Lie::kEmptyMessage) || fault.lies.contains(Lie::kSameCursor)) {
      response->set_next_offset(NameOf(start, request));
    }
    if (fault.lies.contains(Lie::kEnd)) {
      response->clear_next_offset();
    }
    if (fault.lies.contains(Lie::kCapacityChanges)) {
      response->set_volume_size(response->volume_size() +
                                static_cast<uint64_t>(options_.blocks.bytes));
    }
    if (fault.lies.contains(Lie::kExpired)) {
      response->set_timeout(kLongAgoSeconds);
    }
    if (fault.lies.contains(Lie::kHugeMessage)) {
      MakeHuge(*response);
    }
  }

  const DriverOptions& options_;
  Faults& faults_;
  Store& store_;
  const Clock& clock_;
};

}  // namespace

std::unique_ptr<differential::DifferentialSnapshot::Service> MakeDifferentialSnapshot(
    const DriverOptions& options, Faults& faults, Store& store, const Clock& clock) {
  return std::make_unique<DifferentialSnapshotService>(options, faults, store, clock);
}

}  // namespace csidelta::csi_driver
