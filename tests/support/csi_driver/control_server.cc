#include "tests/support/csi_driver/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace csidelta::csi_driver {
namespace {

constexpr int64_t kWaitDefaultMs = 30'000;

absl::Status AddRules(const Json& request, Faults& faults) {
  const Json* const list = FindJson(request, {"rules"});
  if (list == nullptr || !list->is_array()) {
    return absl::InvalidArgumentError("rules: want a list");
  }
  std::vector<FaultRule> rules;
  for (const Json& item : *list) {
    ASSIGN_OR_RETURN(FaultRule rule, ParseFaultRule(item));
    rules.push_back(std::move(rule));
  }
  faults.Add(std::move(rules));
  return absl::OkStatus();
}

Json CountsJson(const Faults& faults) {
  Json calls = Json::object();
  for (const auto& [method, count] : faults.Counts()) {
    calls[method] = {{"started", count.started},
                     {"held", count.held},
                     {"finished", count.finished},
                     {"failed", count.failed}};
  }
  return calls;
}

absl::Status WaitForCounts(const Json& request, const Faults& faults) {
  const std::string method = GetString(request, {"method"});
  const CallCount at_least{.started = GetInt(request, {"started"}),
                           .held = GetInt(request, {"held"}),
                           .finished = GetInt(request, {"finished"}),
                           .failed = GetInt(request, {"failed"})};
  const int64_t timeout_ms = GetInt(request, {"timeout_ms"}, kWaitDefaultMs);
  if (faults.WaitFor(method, at_least, absl::Milliseconds(timeout_ms))) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("after ", timeout_ms, " ms: ", DumpJson(CountsJson(faults))));
}

absl::StatusOr<Json> VolumesJson(const Store& store) {
  ASSIGN_OR_RETURN(const Page<VolumeRecord> page, store.ListVolumes({}));
  Json list = Json::array();
  for (const VolumeRecord& volume : page.records) {
    list.push_back({{"id", volume.id},
                    {"name", volume.name},
                    {"size_bytes", volume.size_bytes},
                    {"mode", volume.mode == VolumeMode::kBlock ? "block" : "filesystem"},
                    {"source_snapshot", volume.source.snapshot_id},
                    {"source_volume", volume.source.volume_id},
                    {"copy", volume.copy},
                    {"path", store.VolumePath(volume.id)}});
  }
  return list;
}

absl::StatusOr<Json> SnapshotsJson(const Store& store) {
  ASSIGN_OR_RETURN(const Page<SnapshotRecord> page, store.ListSnapshots({}, {}));
  Json list = Json::array();
  for (const SnapshotRecord& snapshot : page.records) {
    list.push_back({{"id", snapshot.id},
                    {"name", snapshot.name},
                    {"volume", snapshot.volume_id},
                    {"size_bytes", snapshot.size_bytes},
                    {"created_at_ns", absl::ToUnixNanos(snapshot.created_at)},
                    {"group", snapshot.group_id},
                    {"path", store.SnapshotPath(snapshot.id)}});
  }
  return list;
}

absl::StatusOr<Json> GroupsJson(const Store& store) {
  ASSIGN_OR_RETURN(const std::vector<Group> groups, store.ListGroups());
  Json list = Json::array();
  for (const Group& group : groups) {
    Json members = Json::array();
    for (const SnapshotRecord& snapshot : group.snapshots) {
      members.push_back({{"volume", snapshot.volume_id}, {"snapshot", snapshot.id}});
    }
    const std::optional<absl::Duration>& frozen = group.record.frozen;
    list.push_back({{"id", group.record.id},
                    {"name", group.record.name},
                    {"members", std::move(members)},
                    {"created_at_ns", absl::ToUnixNanos(group.record.created_at)},
                    {"frozen_ns", frozen.has_value() ? Json(absl::ToInt64Nanoseconds(*frozen))
                                                     : Json(nullptr)}});
  }
  return list;
}

// With all members that are there. NOT_FOUND for an unknown id: who asks for it has counted
// wrongly.
absl::Status DeleteGroup(const std::string& id, Store& store) {
  ASSIGN_OR_RETURN(const std::vector<Group> groups, store.ListGroups());
  for (const Group& group : groups) {
    if (group.record.id == id) {
      std::vector<std::string> members;
      for (const SnapshotRecord& snapshot : group.snapshots) {
        members.push_back(snapshot.id);
      }
      return store.DeleteGroup(id, members);
    }
  }
  return absl::NotFoundError(absl::StrCat("no group \"", id, "\""));
}

// The members of the answer, besides "ok".
absl::StatusOr<Json> Perform(const Json& request, Faults& faults, Store& store) {
  const std::string op = GetString(request, {"op"});
  Json answer = Json::object();
  if (op == "add") {
    RETURN_IF_ERROR(AddRules(request, faults));
  } else if (op == "clear") {
    faults.Clear();
  } else if (op == "release") {
    const std::string method = GetString(request, {"method"});
    faults.Release(method.empty() ? "*" : method);
  } else if (op == "wait") {
    RETURN_IF_ERROR(WaitForCounts(request, faults));
  } else if (op == "count") {
    answer["calls"] = CountsJson(faults);
  } else if (op == "volumes") {
    ASSIGN_OR_RETURN(answer["volumes"], VolumesJson(store));
  } else if (op == "snapshots") {
    ASSIGN_OR_RETURN(answer["snapshots"], SnapshotsJson(store));
  } else if (op == "groups") {
    ASSIGN_OR_RETURN(answer["groups"], GroupsJson(store));
  } else if (op == "delete_snapshot") {
    RETURN_IF_ERROR(
        store.DeleteSnapshot(GetString(request, {"id"}), GetBool(request, {"keep_change_data"})));
  } else if (op == "end_copy") {
    ASSIGN_OR_RETURN(const VolumeRecord volume,
                     store.EndCopy(GetString(request, {"id"}), GetBool(request, {"fails"})));
    answer["copy"] = volume.copy;
  } else if (op == "delete_group") {
    RETURN_IF_ERROR(DeleteGroup(GetString(request, {"id"}), store));
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unknown op \"", op, "\""));
  }
  return answer;
}

absl::StatusOr<UniqueFd> Listen(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("socket path is too long: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  RETURN_IF_ERROR(RemoveFile(path));
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener.get() < 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("listen on ", path));
  }
  return listener;
}

}  // namespace

Json HandleControl(const Json& request, Faults& faults, Store& store) {
  absl::StatusOr<Json> answer = Perform(request, faults, store);
  if (!answer.ok()) {
    return {{"ok", false}, {"error", std::string(answer.status().message())}};
  }
  (*answer)["ok"] = true;
  return *std::move(answer);
}

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& socket_path,
                                                                    Faults& faults, Store& store) {
  ASSIGN_OR_RETURN(UniqueFd listener, Listen(socket_path));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (stop.get() < 0) {
    return absl::ErrnoToStatus(errno, "eventfd");
  }
  return std::unique_ptr<ControlServer>(
      new ControlServer(socket_path, std::move(listener), std::move(stop), faults, store));
}

ControlServer::ControlServer(std::string socket_path, UniqueFd listener, UniqueFd stop,
                             Faults& faults, Store& store)
    : socket_path_(std::move(socket_path)),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      faults_(faults),
      store_(store) {
  for (int i = 0; i < kControlConnectionsMax; ++i) {
    workers_.emplace_back([this] { AcceptConnections(); });
  }
}

ControlServer::~ControlServer() {
  eventfd_write(stop_.get(), 1);
  workers_.clear();
  unlink(socket_path_.c_str());
}

void ControlServer::AcceptConnections() {
  while (WaitReadable(listener_)) {
    // Not blocking: another worker may have been faster.
    const UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() >= 0) {
      ServeConnection(connection);
    }
  }
}

void ControlServer::ServeConnection(const UniqueFd& connection) {
  std::string pending;
  std::array<char, 4096> buffer;
  while (pending.size() < kControlLineBytesMax && WaitReadable(connection)) {
    const ssize_t count = read(connection.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      return;
    }
    pending.append(buffer.data(), static_cast<size_t>(count));
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      const std::string answer = Answer(pending.substr(0, end)) + "\n";
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t step =
            send(connection.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (step < 0) {
          return;
        }
        sent += static_cast<size_t>(step);
      }
    }
  }
}

bool ControlServer::WaitReadable(const UniqueFd& fd) const {
  std::array<pollfd, 2> fds = {{{fd.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  while (poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

std::string ControlServer::Answer(const std::string& line) {
  const absl::StatusOr<Json> request = ParseJsonObject(line);
  if (!request.ok()) {
    return DumpJson({{"ok", false}, {"error", std::string(request.status().message())}});
  }
  return DumpJson(HandleControl(*request, faults_, store_));
}

}  // namespace csidelta::csi_driver
