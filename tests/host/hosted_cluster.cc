#include "tests/host/hosted_cluster.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "k8s/object.h"
#include "tests/support/kind_names.h"

namespace csidelta::host {
namespace {

std::vector<k8s::ResourceType> Types() {
  std::vector<k8s::ResourceType> types = {
      VolumeSnapshotType(),
      VolumeSnapshotContentType(),
      VolumeSnapshotClassType(),
      PersistentVolumeClaimType(),
      PersistentVolumeType(),
      StorageClassType(),
      PodType(),
      SecretType(),
      ConfigMapType(),
      LeaseType(),
      BackupType(),
      DataUploadType(),
      DataDownloadType(),
      {"velero.io", "v1", "restores", "Restore", true},
      {"velero.io", "v1", "backupstoragelocations", "BackupStorageLocation", true},
      {"", "v1", "namespaces", "Namespace", false},
      {"", "v1", "events", "Event", true},
      {"", "v1", "serviceaccounts", "ServiceAccount", true},
      {"apps", "v1", "deployments", "Deployment", true},
      {"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false},
      {"longhorn.io", "v1beta2", "engines", "Engine", true},
      {"longhorn.io", "v1beta2", "settings", "Setting", true},
      {"longhorn.io", "v1beta2", "snapshots", "Snapshot", true},
      {"longhorn.io", "v1beta2", "volumes", "Volume", true},
      {"authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", false},
  };
  for (const char* version : objects::kGroupVersions) {
    types.push_back(VolumeGroupSnapshotType(version));
    types.push_back(VolumeGroupSnapshotContentType(version));
    types.push_back(VolumeGroupSnapshotClassType(version));
  }
  return types;
}

const k8s::ResourceType* TypeOf(const Json& object) {
  static const std::vector<k8s::ResourceType> types = Types();
  const std::string api_version = GetString(object, {"apiVersion"});
  for (const k8s::ResourceType& type : types) {
    const std::string own =
        type.group.empty() ? type.version : absl::StrCat(type.group, "/", type.version);
    if (own == api_version && type.kind == GetString(object, {"kind"})) {
      return &type;
    }
  }
  return nullptr;
}

absl::Status StatusOf(int64_t code, const std::string& message) {
  static const std::map<int64_t, absl::StatusCode> codes = {
      {401, absl::StatusCode::kUnauthenticated}, {403, absl::StatusCode::kPermissionDenied},
      {404, absl::StatusCode::kNotFound},        {409, absl::StatusCode::kAborted},
      {422, absl::StatusCode::kInvalidArgument}, {429, absl::StatusCode::kResourceExhausted},
      {503, absl::StatusCode::kUnavailable}};
  const auto found = codes.find(code);
  return code == 0
             ? absl::OkStatus()
             : absl::Status(found == codes.end() ? absl::StatusCode::kUnavailable : found->second,
                            message);
}

Json ToJson(const std::vector<GatedCall>& calls) {
  Json all = Json::array();
  for (const GatedCall& call : calls) {
    all.push_back({{"text", call.text}, {"writes", call.writes}});
  }
  return all;
}

}  // namespace

HostedCluster::HostedCluster(const std::string& folder, const Json& options) {
  const std::string groups = GetString(options, {"groups"});
  for (const char* plural :
       {"volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses"}) {
    if (groups.empty()) {
      api_.RemoveType(plural);
    } else {
      api_.ServeVersion(plural, groups);
    }
  }
  programs_.strict = true;
  programs_.groups_run = !groups.empty();
  if (!groups.empty()) {
    programs_.group_version = programs_.controller_version = groups;
    programs_.group_list =
        groups == "v1beta1" ? "volumeSnapshotHandlePairList" : "volumeSnapshotInfoList";
  }
  if (const std::string name = GetString(options, {"driver"}); !name.empty()) {
    programs_.driver_name = name;
  }
  programs_.driver().takes_groups = GetBool(options, {"driver_groups"}, true);
  programs_.driver().takes_any_handle = false;
  programs_.driver().cut_at_nanoseconds = 0;
  programs_.driver().size_bytes = 1 << 20;
  programs_.Run(absl::Milliseconds(GetInt(options, {"lag_ms"})),
                absl::Milliseconds(GetInt(options, {"retry_ms"}, 50)));
  server_ = std::make_unique<support::ApiTestServer>(
      gate_, Types(), support::TestServerOptions{.tls = GetBool(options, {"tls"}, true)},
      [](const support::ServedRequest& request, support::ServedConnection&) {
        const auto token = request.headers.find("authorization");
        GatedClient::SetUser(token == request.headers.end()
                                 ? ""
                                 : std::string(absl::StripPrefix(token->second, "Bearer ")));
        return false;
      });
  for (const char* user : {"plugin", "velero"}) {
    std::ofstream(absl::StrCat(folder, "/", user, ".conf"))
        << server_->Kubeconfig(absl::StrCat("{token: ", user, "}"));
  }
}

absl::StatusOr<Json> HostedCluster::Answer(const Json& request) {
  const std::string op = GetString(request, {"op"});
  if (op == "load") {
    return Load(request);
  }
  if (op == "dump") {
    return Dump(request);
  }
  if (op == "driver") {
    return DriverState();
  }
  if (op == "rule") {
    return AddRule(request);
  }
  if (op == "driver_fault") {
    return AddDriverFault(request);
  }
  if (op == "clear") {
    gate_.ClearRules();
    programs_.driver().ClearFaults();
    return Json::object();
  }
  if (op == "calls") {
    return Json{{"calls", ToJson(gate_.calls(GetString(request, {"user"})))},
                {"kills", ToJson(gate_.kills())},
                {"hits", gate_.hits()}};
  }
  if (op == "forget_calls") {
    gate_.ForgetCalls();
    return Json::object();
  }
  if (op == "write") {
    programs_.driver().Write(GetString(request, {"volume"}), GetString(request, {"data"}));
    return Json::object();
  }
  if (op == "remove_snapshot") {
    programs_.driver().RemoveSnapshot(GetString(request, {"handle"}));
    return Json::object();
  }
  if (op == "delete") {
    return Delete(request);
  }
  if (op == "idle") {
    return Json{{"idle", programs_.idle()}};
  }
  return absl::InvalidArgumentError(absl::StrCat("no request is called ", op));
}

// Stores objects as they are, status included.
absl::StatusOr<Json> HostedCluster::Load(const Json& request) {
  Json uids = Json::array();
  for (const Json& object : request["objects"]) {
    const k8s::ResourceType* type = TypeOf(object);
    if (type == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unknown kind ", DumpJson(object)));
    }
    uids.push_back(k8s::Uid(api_.Seed(*type, object)));
  }
  programs_.Resync();
  return Json{{"uids", uids}};
}

absl::StatusOr<Json> HostedCluster::Dump(const Json& request) const {
  Json objects = Json::array();
  for (const k8s::ResourceType& type : Types()) {
    const bool is_group_version =
        type.group != objects::kGroupSnapshotGroup || type.version == programs_.group_version;
    const Json* plurals = FindJson(request, {"plurals"});
    const bool asked = plurals == nullptr ||
                       std::find(plurals->begin(), plurals->end(), type.plural) != plurals->end();
    for (const Json& object : is_group_version&& asked ? api_.All(type) : std::vector<Json>()) {
      objects.push_back(object);
    }
  }
  return Json{{"objects", objects}};
}

// As a user with all rights does.
absl::StatusOr<Json> HostedCluster::Delete(const Json& request) {
  for (const k8s::ResourceType& type : Types()) {
    const bool is_group = type.group == objects::kGroupSnapshotGroup;
    if (type.plural == GetString(request, {"plural"}) &&
        (!is_group || type.version == programs_.group_version)) {
      const k8s::ObjectKey key{type, GetString(request, {"namespace"}),
                               GetString(request, {"name"})};
      if (const absl::Status status = api_.Delete({}, key, {}); !status.ok()) {
        return status;
      }
      return Json::object();
    }
  }
  return absl::InvalidArgumentError("unknown kind");
}

absl::StatusOr<Json> HostedCluster::DriverState() const {
  const support::FakeStorageDriver& driver = programs_.driver();
  Json calls = Json::object();
  for (const char* method : {"CreateVolume", "CreateSnapshot", "DeleteSnapshot",
                             "CreateVolumeGroupSnapshot", "DeleteVolumeGroupSnapshot"}) {
    calls[method] = driver.CallCount(method);
  }
  return Json{{"snapshots", driver.snapshots()},
              {"groups", driver.groups()},
              {"volumes", driver.volumes()},
              {"asked_alone", driver.asked_alone()},
              {"calls", calls}};
}

absl::StatusOr<Json> HostedCluster::AddRule(const Json& request) {
  gate_.AddRule({.user = GetString(request, {"user"}),
                 .verb = GetString(request, {"verb"}),
                 .plural = GetString(request, {"plural"}),
                 .every = static_cast<int>(GetInt(request, {"every"})),
                 .status = StatusOf(GetInt(request, {"code"}), GetString(request, {"message"})),
                 .lost = GetBool(request, {"lost"}),
                 .kill = GetString(request, {"kill"}),
                 .writes = static_cast<int>(GetInt(request, {"writes"})),
                 .call = static_cast<int>(GetInt(request, {"call"}, 1))});
  return Json::object();
}

absl::StatusOr<Json> HostedCluster::AddDriverFault(const Json& request) {
  support::DriverFault fault;
  if (const std::string method = GetString(request, {"method"}); !method.empty()) {
    fault.method = method;
  }
  fault.match = GetString(request, {"match"});
  fault.code = GetString(request, {"code"});
  fault.message = GetString(request, {"message"});
  fault.times = static_cast<int>(GetInt(request, {"times"}, -1));
  fault.every = static_cast<int>(GetInt(request, {"every"}, 1));
  fault.hold = GetBool(request, {"hold"});
  fault.works = GetBool(request, {"works"});
  fault.not_ready = GetBool(request, {"not_ready"});
  fault.leaves_out = GetString(request, {"leaves_out"});
  programs_.driver().AddFault(std::move(fault));
  return Json::object();
}

}  // namespace csidelta::host
