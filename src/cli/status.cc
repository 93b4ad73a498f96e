#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/movement_json.h"
#include "cli/text.h"
#include "datamover/overview.h"
#include "datamover/settings.h"
#include "objects/client.h"
#include "objects/volume_task.h"

namespace csidelta::cli {
namespace {

using datamover::Movement;

std::string Moved(const Movement& movement) {
  if (movement.total_bytes == 0) {
    return movement.done_bytes == 0 ? "" : FormatBytes(movement.done_bytes);
  }
  return absl::StrCat(FormatBytes(movement.done_bytes), " of ", FormatBytes(movement.total_bytes));
}

std::vector<std::string> RowOf(const Movement& movement) {
  std::string state = movement.phase;
  if (!movement.stage.empty() && !movement.is_over) {
    absl::StrAppend(&state, " (", movement.stage, ")");
  }
  return {absl::StrCat(" ", movement.kind),
          movement.volume,
          absl::StrCat(movement.velero_namespace, "/", movement.name),
          state,
          Moved(movement),
          movement.bytes_per_second.has_value()
              ? absl::StrCat(FormatBytes(*movement.bytes_per_second), "/s")
              : "",
          movement.left.has_value() ? FormatElapsed(*movement.left) : "",
          movement.message};
}

class StatusCommand : public Command {
 public:
  VerbSyntax Declare() override {
    ArgumentTable table;
    access_.Declare(table);
    DeclareMoverPlaces(table, mover_namespace_, velero_namespaces_);
    table.Add("--all", "also what is over, as long as its object is there", all_);
    return {.name = "status",
            .summary = "Say what the data mover is doing",
            .details =
                "Which volumes are being moved, how far they are, how fast, how long it "
                "will take, and what waits for what. Says when the settings pause transfers or "
                "no upload window is open.",
            .table = std::move(table)};
  }

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) override {
    const std::unique_ptr<k8s::ApiClient> api = access_.MakeClient();
    std::vector<objects::DataUpload> uploads;
    std::vector<objects::DataDownload> downloads;
    for (const absl::string_view space :
         absl::StrSplit(velero_namespaces_, ',', absl::SkipEmpty())) {
      RETURN_IF_ERROR(Read(ctx, *api, space, uploads));
      RETURN_IF_ERROR(Read(ctx, *api, space, downloads));
    }
    std::vector<objects::VolumeTask> tasks;
    RETURN_IF_ERROR(Read(ctx, *api, mover_namespace_, tasks));
    const absl::StatusOr<datamover::MoverSettings> settings =
        datamover::ReadMoverSettings(ctx, *api, mover_namespace_);
    if (!settings.ok()) {
      session.console().Note(
          absl::StrCat("what transfers wait for is not known: ", settings.status().message()));
    }
    const datamover::QueueOverview queue =
        settings.ok() ? datamover::DescribeQueue(*settings, uploads, downloads, ctx.clock->Now())
                      : datamover::QueueOverview();
    std::vector<Movement> shown;
    for (Movement& movement : datamover::ListMovements(uploads, downloads, tasks)) {
      if (const auto reason = queue.reasons.find(movement.uid); reason != queue.reasons.end()) {
        movement.waits_for = reason->second;
      }
      if (all_ || !movement.is_over) {
        shown.push_back(std::move(movement));
      }
    }
    Print(session.console(), shown, queue);
    return ExitCode::kOk;
  }

 private:
  template <typename Kind>
  static absl::Status Read(const CallContext& ctx, k8s::ApiClient& api, absl::string_view space,
                           std::vector<Kind>& all) {
    ASSIGN_OR_RETURN(
        const std::vector<Kind> list,
        objects::List<Kind>(ctx, api, space,
                            {.label_selector = "", .field_selector = "", .may_be_old = true}));
    all.insert(all.end(), list.begin(), list.end());
    return absl::OkStatus();
  }

  static void Print(Console& console, const std::vector<Movement>& shown,
                    const datamover::QueueOverview& queue) {
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows = {
        {" Kind", "Volume", "Object", "Phase", "Moved", "Rate", "Left", "Message"}};
    for (const Movement& movement : shown) {
      list.push_back(cli::ToJson(movement));
      rows.push_back(RowOf(movement));
    }
    console.PrintResult(list,
                        absl::StrCat(shown.empty() ? "nothing is being moved\n" : FormatTable(rows),
                                     datamover::ToText(queue)));
  }

  ClusterAccess access_;
  std::string mover_namespace_ = "csi-delta";
  std::string velero_namespaces_ = "velero";
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeStatusCommand() { return std::make_unique<StatusCommand>(); }

}  // namespace csidelta::cli
