#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/call_context.h"
#include "base/json.h"
#include "base/random.h"
#include "cli/cluster_access.h"
#include "cli/command.h"
#include "cli/session.h"

// Shared by verbs on a cluster, besides their flags.
namespace csidelta::cli {

// A verb with the flags of ClusterOptions, those of kubectl. Run() makes the client, and Work()
// does the rest. What is below Work() is there while it runs.
class ClusterCommand : public Command {
 public:
  explicit ClusterCommand(VerbFamily family = VerbFamily::kCluster) : Command(family) {}

  absl::StatusOr<ExitCode> Run(const CallContext& ctx, Session& session) final;

 protected:
  virtual absl::StatusOr<ExitCode> Work() = 0;

  const CallContext& ctx() const { return *ctx_; }
  Session& session() const { return *session_; }
  Console& console() const { return session_->console(); }
  Random& random() const { return *session_->environment().random; }
  const ClusterOptions& cluster() const { return session_->options().cluster; }
  k8s::ApiClient& api() const { return *api_; }

 private:
  const CallContext* ctx_ = nullptr;
  Session* session_ = nullptr;
  std::unique_ptr<k8s::ApiClient> api_;
};

// The same on the data mover of a cluster.
struct MoverCommand : ClusterCommand {
  MoverCommand() : ClusterCommand(VerbFamily::kMover) {}
};

// The form that -o or --json requests: "json", "yaml", "name", "wide", or "table".
std::string OutputForm(const Session& session);
// True for a table, wide or not.
bool AsksForTable(const Session& session);

// A result, or one of several values of a running verb, in each form that -o knows.
struct ClusterResult {
  Json value;                           // json, yaml
  std::string table = {};               // table, wide
  std::vector<std::string> names = {};  // name: "volumesnapshot.snapshot.storage.k8s.io/orders"
};
// Prints `result` in the requested form: a line of JSON, or a document of YAML, of which a verb may
// print several. An empty table prints nothing.
void PrintClusterResult(Session& session, const ClusterResult& result);

// A list that may be very long: its elements are made one at a time. In json and yaml it is the
// member `member` of the object `head`, or the whole result if `member` is "".
struct ClusterList {
  std::size_t count = 0;
  std::vector<std::string> columns = {};                             // of the table
  std::function<std::vector<std::string>(std::size_t)> row = {};     // table, wide
  std::function<Json(std::size_t)> value = {};                       // json, yaml
  std::function<std::optional<std::string>(std::size_t)> name = {};  // name; nullopt: no line
  std::string member = {};
  Json head = Json::object();
};
// Prints `list` in the requested form. The table of an empty list has no line.
void PrintClusterList(Session& session, const ClusterList& list);

}  // namespace csidelta::cli
