#pragma once

#include "absl/strings/string_view.h"
#include "datamover/settings.h"
#include "objects/worker_pod.h"

namespace csidelta::datamover {

using objects::kGraceSeconds;
using objects::kScratchPath;
using objects::kSecretsPath;
using objects::kVolumePath;

// The object to create: `pod`, and beside that what the settings say of workers. `storage_class`:
// of the volume that it is about, which may say where workers run. Pure.
objects::Pod MakeWorkerPod(objects::WorkerPodSpec pod, const MoverSettings& settings,
                           absl::string_view storage_class);

}  // namespace csidelta::datamover
