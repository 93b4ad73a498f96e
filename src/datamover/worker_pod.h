#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datamover/settings.h"
#include "objects/node.h"
#include "objects/object.h"
#include "objects/worker_pod.h"

namespace csidelta::datamover {

using objects::kGraceSeconds;
using objects::kScratchPath;
using objects::kSecretsPath;
using objects::kVolumePath;

// What one worker Pod is made from.
struct WorkerPod {
  std::string name;  // also of its Secret
  std::string namespace_name;
  std::string image;
  std::vector<std::string> args;  // of csi-delta
  std::map<std::string, std::string> env;
  std::string claim;            // a raw block volume; "" for a worker without one
  std::string repository = {};  // that it works on
  std::map<std::string, std::string> labels;
  std::optional<objects::OwnerReference> owner;
  std::string storage_class;  // of the volume that it is about, which may say where workers run
  objects::NodeSelector node_affinity;  // required, beside what the settings say
  MoverSettings settings;
  std::string service_account;
};

// The object to create: a Pod as the Pod Security profile "restricted" wants it, which runs once.
// Pure.
objects::Pod MakeWorkerPod(const WorkerPod& pod);

}  // namespace csidelta::datamover
