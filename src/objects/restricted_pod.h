#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json.h"
#include "objects/node.h"
#include "objects/object.h"
#include "objects/workload.h"

// Pods that meet the level restricted of Pod Security and run csi-delta once. The user is not root,
// has no capability, and sees a read-only root. Fields are those of core/v1; "" and empty fields
// are omitted.
namespace csidelta::objects {

// Of the image.
inline constexpr char kProgramPath[] = "/bin/csi-delta";
inline constexpr int64_t kImageUser = 65532;
// The labels of nodes that can run the image, which is built for one architecture. Each Pod selects
// such nodes.
const std::map<std::string, std::string>& ImageNodeLabels();
// Whether the nodeSelector of a Deployment's Pods names an architecture.
bool NamesArchitecture(const Object& deployment);

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

// The parts of a CronJob. It starts one Pod at a time, and does not retry a Pod that fails.
struct CronJobPlan {
  std::string namespace_name;
  std::string name;
  std::string schedule;        // of cron
  std::string time_zone = {};  // "": that of the cluster's controllers
  bool is_suspended = false;
  int start_seconds_max = 0;  // one that could not be started by then is left out
  RestrictedPod pod;
};

// Of batch/v1.
Object MakeCronJob(const CronJobPlan& plan);

// Where a worker of the data mover finds things.
inline constexpr char kVolumePath[] = "/dev/volume";
inline constexpr char kSecretsPath[] = "/secrets";
inline constexpr char kScratchPath[] = "/scratch";
// How long a worker that is told to end may take.
inline constexpr int kGraceSeconds = 8;

// The parts of a worker's Pod; "" and empty for none.
struct WorkerPodSpec {
  std::string namespace_name = {};
  std::string name = {};  // also of its Secret
  std::map<std::string, std::string> labels = {};
  std::map<std::string, std::string> annotations = {};
  std::optional<OwnerReference> owner = {};
  std::string image = {};
  std::string image_pull_policy = {};
  std::vector<std::string> image_pull_secrets = {};
  std::string service_account = {};
  std::vector<std::string> args = {};  // of csi-delta
  std::map<std::string, std::string> env = {};
  std::string claim = {};  // a raw block volume; "" for a worker without one
  std::string scratch_size = {};
  std::map<std::string, std::string> requests = {};  // quantities by resource
  std::map<std::string, std::string> limits = {};    // likewise
  bool has_fixed_user = true;  // the image's; else the namespace's, which its admission sets
  std::vector<int64_t> supplemental_groups = {};
  std::string priority_class = {};
  std::map<std::string, std::string> node_selector = {};  // overrides ImageNodeLabels()
  Tolerations tolerations = {};
  Affinity affinity = {};
  NodeSelector node_affinity = {};  // required, beside what `affinity` says
};

// The one to create: as the Pod Security profile "restricted" wants it, which runs once. Pure.
Pod MakeWorkerPod(const WorkerPodSpec& pod);

}  // namespace csidelta::objects
