#include "doctor/sample_worker.h"

#include <cstdint>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "csi/expose/exposed_snapshot.h"
#include "datamover/worker/worker_pod.h"
#include "doctor/checks.h"
#include "objects/keys.h"
#include "objects/volume_task.h"

namespace csidelta::doctor {
namespace {

using objects::PersistentVolumeClaim;

constexpr int64_t kBytes = int64_t{1} << 30;  // what most drivers make at least

// By the first, csi-delta uninstall finds what was left behind.
std::map<std::string, std::string> Labels(absl::string_view name) {
  return {{objects::kMoverTaskLabel, std::string(name)},
          {objects::kExcludeFromBackupLabel, "true"}};
}

}  // namespace

std::string ImageOfWorkers(CheckContext& context) {
  const std::optional<objects::Deployment> controller = ControllerOf(context);
  if (!controller.has_value()) {
    return "";
  }
  const auto containers = controller->containers();
  const std::string image = containers.empty() ? "" : containers.front().image;
  if (image.empty()) {
    context.Unknown("", absl::NotFoundError("the mover's Deployment names no image"));
  }
  return image;
}

std::set<std::string> ClassesInUse(CheckContext& context) {
  std::set<std::string> classes;
  for (const CsiVolume& volume : CsiVolumes(context)) {
    const std::string name = volume.claim.storage_class().value_or("");
    if (!csi::HasNoBlockDevices(volume.driver) && !name.empty()) {
      classes.insert(name);
    }
  }
  return classes;
}

std::string SampleName(CheckContext& context) {
  return absl::StrCat("doctor-",
                      absl::Hex(context.random().Below(uint64_t{1} << 62), absl::kZeroPad16));
}

PersistentVolumeClaim SampleClaim(absl::string_view namespace_name, absl::string_view name,
                                  absl::string_view storage_class) {
  PersistentVolumeClaim claim = PersistentVolumeClaim::Make(namespace_name, name);
  claim.SetLabels(Labels(name));
  claim.SetStorageClass(storage_class);
  claim.SetAccessModes({"ReadWriteOnce"});
  claim.SetMode(objects::VolumeMode::kBlock);
  claim.SetRequestedBytes(kBytes);
  return claim;
}

objects::Pod SampleWorker(absl::string_view namespace_name, absl::string_view name,
                          absl::string_view image, absl::string_view storage_class,
                          absl::string_view repository, const datamover::MoverSettings& settings) {
  return datamover::MakeWorkerPod(
      {.namespace_name = std::string(namespace_name),
       .name = std::string(name),
       .labels = Labels(name),
       .image = std::string(image),
       .service_account = kWorkerAccount,
       .args = {"backup", objects::kVolumePath, "--repo", std::string(repository)},
       .env = {{"RESTIC_PASSWORD", "a repository that is never read"}},
       .claim = std::string(name)},
      settings, storage_class);
}

}  // namespace csidelta::doctor
