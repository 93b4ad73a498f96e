#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json.h"
#include "objects/workload.h"

// Pods that meet the level restricted of Pod Security and run csi-delta once, as a user that is not
// root, with no capability and a root that is read-only. Fields are those of core/v1; what is ""
// or empty is left out.
namespace csidelta::objects {

// Of the image.
inline constexpr char kProgramPath[] = "/bin/csi-delta";
inline constexpr int64_t kImageUser = 65532;

struct VolumePath {
  std::string volume;
  std::string path;
};

struct RestrictedContainer {
  std::string name;
  std::string image;
  std::string image_pull_policy = {};
  std::vector<std::string> args;  // of csi-delta; Kubernetes takes $(NAME) for a variable
  std::map<std::string, std::string> requests = {};  // quantities by resource: cpu, memory
  std::map<std::string, std::string> limits = {};
  std::map<std::string, std::string> variables = {};
  std::string variables_secret = {};  // whose keys are variables as well
  std::vector<VolumePath> mounts = {};
  std::vector<VolumePath> devices = {};
};

struct RestrictedPod {
  int grace_seconds = 0;
  std::string service_account = {};
  std::optional<bool> has_token = {};                            // nothing: as the account says
  std::optional<std::vector<int64_t>> supplemental_groups = {};  // written although it is empty
  std::vector<std::string> image_pull_secrets = {};
  std::vector<RestrictedContainer> init_containers = {};
  std::vector<RestrictedContainer> containers;
  std::vector<PodVolume> volumes = {};  // without a PVC: an empty folder, gone with the Pod
};

// The spec of a Pod or of a template.
Json ToJson(const RestrictedPod& pod);

Pod MakePod(absl::string_view namespace_name, absl::string_view name, const RestrictedPod& pod);

}  // namespace csidelta::objects
