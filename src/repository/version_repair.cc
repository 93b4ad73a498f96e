#include "repository/version_repair.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "repository/repository.h"

namespace csidelta::repository {
namespace {

using storage::ObjectVersion;

constexpr std::size_t kMarkersMax = 100;  // of one object; beyond them its version is put again
constexpr std::size_t kNamedLostMax = 100;

// One object: what it is now, what it was then, and the delete markers since then.
struct History {
  ObjectVersion latest;
  std::optional<ObjectVersion> then = {};
  std::vector<std::string> markers_since = {};
  bool was_written_since = false;
};

class VersionRepair {
 public:
  VersionRepair(const CallContext& ctx, storage::ObjectStore& store,
                const RepairVersionsOptions& options)
      : ctx_(ctx), store_(store), options_(options) {}

  absl::StatusOr<RepairVersionsResult> Run() {
    std::optional<History> current;
    RETURN_IF_ERROR(storage::ForEachVersion(
        ctx_, store_, "", [&](const ObjectVersion& version) -> absl::Status {
          if (current.has_value() && current->latest.key != version.key) {
            RETURN_IF_ERROR(Repair(*std::exchange(current, std::nullopt)));
          }
          if (!IsRepaired(version.key)) {
            return absl::OkStatus();
          }
          if (!current.has_value()) {
            current = History{.latest = version};
          }
          Note(version, *current);
          return absl::OkStatus();
        }));
    if (current.has_value()) {
      RETURN_IF_ERROR(Repair(*std::move(current)));
    }
    return std::move(result_);
  }

 private:
  static bool IsRepaired(absl::string_view key) {
    constexpr absl::string_view kRepaired[] = {"keys/", "index/", "snapshots/", "data/", "aux/"};
    return key == kConfigKey || absl::c_any_of(kRepaired, [key](absl::string_view folder) {
             return absl::StartsWith(key, folder);
           });
  }

  void Note(const ObjectVersion& version, History& history) const {
    if (version.modified_at <= options_.as_of) {
      if (!history.then.has_value()) {
        history.then = version;
      }
    } else if (!version.is_delete_marker || history.markers_since.size() == kMarkersMax) {
      history.was_written_since = true;
    } else {
      history.markers_since.push_back(version.id);
    }
  }

  absl::Status Repair(const History& history) {
    const bool was_there = history.then.has_value() && !history.then->is_delete_marker;
    result_.objects += was_there ? 1 : 0;
    if (!was_there) {
      return history.latest.is_delete_marker ? absl::OkStatus() : LeaveOrHide(history);
    }
    if (history.latest.id == history.then->id) {
      return absl::OkStatus();
    }
    const absl::Status status = options_.dry_run ? absl::OkStatus() : BringBack(history);
    if (status.ok()) {
      ++(history.was_written_since ? result_.restored : result_.shown);
      return status;
    }
    RETURN_IF_ERROR(ctx_.Check());
    if (absl::IsUnavailable(status) || absl::IsUnimplemented(status)) {
      return status;
    }
    ++result_.lost_count;
    if (result_.lost.size() < kNamedLostMax) {
      result_.lost.push_back(absl::StrCat(history.latest.key, ": ", status.message()));
    }
    return absl::OkStatus();
  }

  absl::Status LeaveOrHide(const History& history) {
    ++(options_.hide_newer ? result_.hidden : result_.newer);
    return options_.hide_newer && !options_.dry_run ? store_.Delete(ctx_, history.latest.key)
                                                    : absl::OkStatus();
  }

  absl::Status BringBack(const History& history) {
    const std::string& key = history.latest.key;
    if (history.was_written_since) {
      return store_.RestoreVersion(ctx_, key, history.then->id);
    }
    for (const std::string& marker : history.markers_since) {
      RETURN_IF_ERROR(store_.DeleteVersion(ctx_, key, marker));
    }
    return absl::OkStatus();
  }

  const CallContext& ctx_;
  storage::ObjectStore& store_;
  const RepairVersionsOptions& options_;
  RepairVersionsResult result_;
};

}  // namespace

absl::StatusOr<RepairVersionsResult> RepairVersions(const CallContext& ctx,
                                                    storage::ObjectStore& store,
                                                    const RepairVersionsOptions& options) {
  return VersionRepair(ctx, store, options).Run();
}

}  // namespace csidelta::repository
