#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "objects/node.h"
#include "objects/object.h"
#include "objects/scheduling.h"
#include "objects/workload.h"

namespace csidelta::objects {

// Where a worker of the data mover finds things.
inline constexpr char kVolumePath[] = "/dev/volume";
inline constexpr char kSecretsPath[] = "/secrets";
inline constexpr char kScratchPath[] = "/scratch";
// How long a worker that is told to end may take.
inline constexpr int kGraceSeconds = 8;

// What the Pod of a worker is made from; "" and empty for none.
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
  std::map<std::string, std::string> requests = {};  // "cpu", "memory": a quantity
  std::map<std::string, std::string> limits = {};    // likewise
  bool has_fixed_user = true;  // the image's; else the namespace's, which its admission sets
  std::vector<int64_t> supplemental_groups = {};
  std::string priority_class = {};
  std::map<std::string, std::string> node_selector = {};  // beside Linux
  Tolerations tolerations = {};
  Affinity affinity = {};
  NodeSelector node_affinity = {};  // required, beside what `affinity` says
};

// The one to create: as the Pod Security profile "restricted" wants it, which runs once. Pure.
Pod MakeWorkerPod(const WorkerPodSpec& pod);

}  // namespace csidelta::objects
