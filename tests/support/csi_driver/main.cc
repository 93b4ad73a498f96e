// csi-delta-test-driver: a CSI driver for tests, whose volumes are files. See README.md.

#include <grpcpp/server_builder.h>
#include <signal.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tests/support/csi_driver/control_server.h"
#include "tests/support/csi_driver/services.h"
#include "tests/support/run_server.h"

namespace csidelta::csi_driver {
namespace {

constexpr char kUsage[] =
    "usage: csi-delta-test-driver --endpoint unix://PATH --state-dir DIR --driver-name NAME\n"
    "           --node-id ID [--control-socket PATH] [--no-list-snapshots]\n"
    "           [--no-snapshot-metadata] [--differential-snapshot] [--keep-change-data]\n"
    "           [--late-copies]\n"
    "           [--block-type fixed|variable] [--block-bytes N]\n"
    "           [--cursors numeric|opaque]\n"
    "           [--volumes-dir DIR] [--group-snapshots] [--groups-whole] [--group-secret "
    "KEY=VALUE]\n"
    "           [--no-growth-with-snapshots] [--no-deletion-with-snapshots]\n"
    "           [--snapshots-max N] [--clones-max N]\n"
    "           [--snapshot-pause DURATION] [--snapshot-takes DURATION]\n"
    "           [--exact-size-only] [--no-shared-block] [--no-shared-reads]\n"
    "           [--shares-are-files] [--share-manager NODE]\n";

// Flags without a value.
const std::map<absl::string_view, void (*)(DriverOptions&)>& Switches() {
  static const auto* const kSwitches = new std::map<absl::string_view, void (*)(DriverOptions&)>{
      {"--no-list-snapshots", [](DriverOptions& o) { o.list_snapshots = false; }},
      {"--no-snapshot-metadata", [](DriverOptions& o) { o.snapshot_metadata = false; }},
      {"--differential-snapshot", [](DriverOptions& o) { o.differential_snapshot = true; }},
      {"--group-snapshots", [](DriverOptions& o) { o.group_snapshots = true; }},
      {"--groups-whole", [](DriverOptions& o) { o.groups_whole = true; }},
      {"--keep-change-data", [](DriverOptions& o) { o.keep_change_data = true; }},
      {"--late-copies", [](DriverOptions& o) { o.late_copies = true; }},
      {"--no-growth-with-snapshots",
       [](DriverOptions& o) { o.habits.grows_with_snapshots = false; }},
      {"--no-deletion-with-snapshots",
       [](DriverOptions& o) { o.habits.deletes_with_snapshots = false; }},
      {"--exact-size-only", [](DriverOptions& o) { o.habits.exact_size_only = true; }},
      {"--no-shared-block", [](DriverOptions& o) { o.habits.shares_block_mode = false; }},
      {"--no-shared-reads", [](DriverOptions& o) { o.habits.shares_reads = false; }},
      {"--shares-are-files", [](DriverOptions& o) { o.habits.shares_files = true; }},
  };
  return *kSwitches;
}

absl::Status BadValue(absl::string_view flag, const std::string& value) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": it cannot be ", value));
}

// The flags of lists of blocks, as they were given.
struct BlockFlags {
  std::string type = "fixed";
  std::string bytes = "4096";
  std::string cursors = "numeric";
};

absl::Status ReadBlockFlags(const BlockFlags& flags, DriverOptions& options) {
  BlockOptions& blocks = options.blocks;
  blocks.fixed = flags.type == "fixed";
  if (!blocks.fixed && flags.type != "variable") {
    return BadValue("--block-type", flags.type);
  }
  if (!absl::SimpleAtoi(flags.bytes, &blocks.bytes) || blocks.bytes < kBlockBytesMin ||
      blocks.bytes > kBlockBytesMax || blocks.bytes % kBlockBytesMin != 0) {
    return BadValue("--block-bytes", flags.bytes);
  }
  options.opaque_cursors = flags.cursors == "opaque";
  if (!options.opaque_cursors && flags.cursors != "numeric") {
    return BadValue("--cursors", flags.cursors);
  }
  return absl::OkStatus();
}

// The habits with a value, as they were given.
struct HabitFlags {
  std::string snapshots_max = "0";
  std::string clones_max = "0";
  std::string snapshot_pause = "0s";
  std::string snapshot_takes = "0s";
};

absl::Status ReadHabits(const HabitFlags& flags, support::DriverHabits& habits) {
  if (!absl::SimpleAtoi(flags.snapshots_max, &habits.snapshots_max)) {
    return BadValue("--snapshots-max", flags.snapshots_max);
  }
  if (!absl::SimpleAtoi(flags.clones_max, &habits.clones_max)) {
    return BadValue("--clones-max", flags.clones_max);
  }
  if (!absl::ParseDuration(flags.snapshot_pause, &habits.snapshot_pause)) {
    return BadValue("--snapshot-pause", flags.snapshot_pause);
  }
  return absl::ParseDuration(flags.snapshot_takes, &habits.snapshot_takes)
             ? absl::OkStatus()
             : BadValue("--snapshot-takes", flags.snapshot_takes);
}

absl::Status ReadGroupSecret(const std::string& text, DriverOptions& options) {
  const std::pair<std::string, std::string> secret = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (!text.empty() && (secret.first.empty() || secret.second.empty())) {
    return BadValue("--group-secret", text);
  }
  if (!text.empty()) {
    options.group_secret.insert(secret);
  }
  return absl::OkStatus();
}

absl::StatusOr<DriverOptions> ParseArguments(int argc, char** argv) {
  DriverOptions options;
  BlockFlags blocks;
  HabitFlags habits;
  std::string group_secret;
  const std::set<const std::string*> optional = {&options.control_socket, &options.volumes_dir,
                                                 &options.habits.share_manager, &group_secret};
  const std::map<absl::string_view, std::string*> values = {
      {"--endpoint", &options.endpoint},
      {"--state-dir", &options.state_dir},
      {"--driver-name", &options.driver_name},
      {"--node-id", &options.node_id},
      {"--control-socket", &options.control_socket},
      {"--volumes-dir", &options.volumes_dir},
      {"--group-secret", &group_secret},
      {"--block-type", &blocks.type},
      {"--block-bytes", &blocks.bytes},
      {"--cursors", &blocks.cursors},
      {"--snapshots-max", &habits.snapshots_max},
      {"--clones-max", &habits.clones_max},
      {"--share-manager", &options.habits.share_manager},
      {"--snapshot-pause", &habits.snapshot_pause},
      {"--snapshot-takes", &habits.snapshot_takes},
  };
  for (int i = 1; i < argc; ++i) {
    const absl::string_view name = argv[i];
    if (const auto found = Switches().find(name); found != Switches().end()) {
      found->second(options);
      continue;
    }
    const auto value = values.find(name);
    if (value == values.end() || ++i == argc) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag, or no value for it: ", name));
    }
    *value->second = argv[i];
  }
  for (const auto& [name, value] : values) {
    if (value->empty() && !optional.contains(value)) {
      return absl::InvalidArgumentError(absl::StrCat("missing: ", name));
    }
  }
  RETURN_IF_ERROR(ReadBlockFlags(blocks, options));
  RETURN_IF_ERROR(ReadHabits(habits, options.habits));
  RETURN_IF_ERROR(ReadGroupSecret(group_secret, options));
  return options;
}

// Serves until one of `signals`, which must be blocked, arrives.
absl::Status Serve(const DriverOptions& options, const sigset_t& signals) {
  Faults faults;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Store> store,
      Store::Open(options.state_dir, Clock::Real(), Random::Real(), options.volumes_dir));
  std::unique_ptr<ControlServer> control;
  if (!options.control_socket.empty()) {
    ASSIGN_OR_RETURN(control, ControlServer::Start(options.control_socket, faults, *store));
  }
  const auto identity = MakeIdentity(options, faults);
  const auto controller = MakeController(options, faults, *store);
  const auto groups = MakeGroupController(options, faults, *store);
  const auto node = MakeNode(options, faults, *store);
  const auto metadata = MakeSnapshotMetadata(options, faults, *store);
  const auto differential = MakeDifferentialSnapshot(options, faults, *store, Clock::Real());

  absl::string_view socket_path = options.endpoint;
  if (absl::ConsumePrefix(&socket_path, "unix://")) {
    RETURN_IF_ERROR(RemoveFile(std::string(socket_path)));  // Left there by one that was killed.
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.endpoint, grpc::InsecureServerCredentials());
  builder.RegisterService(identity.get());
  builder.RegisterService(controller.get());
  builder.RegisterService(groups.get());
  builder.RegisterService(node.get());
  builder.RegisterService(metadata.get());
  builder.RegisterService(differential.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.endpoint));
  }
  CSIDELTA_LOG(kInfo, "serving", {"endpoint", options.endpoint}, {"driver", options.driver_name},
               {"state_dir", options.state_dir});
  int signal = 0;
  sigwait(&signals, &signal);
  // Calls in flight are cancelled at once, the ones that faults hold included.
  server->Shutdown(std::chrono::system_clock::now());
  server->Wait();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<DriverOptions> options = ParseArguments(argc, argv);
  return support::RunServer(
      {.name = "csi-delta-test-driver", .usage = kUsage, .arguments = options.status()},
      [&](const sigset_t& signals) { return Serve(*options, signals); });
}

}  // namespace
}  // namespace csidelta::csi_driver

int main(int argc, char** argv) { return csidelta::csi_driver::Main(argc, argv); }
