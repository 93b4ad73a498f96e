#pragma once

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "datamover/settings.h"
#include "doctor/checkup.h"
#include "objects/persistent_volume.h"
#include "objects/workload.h"

// A worker as the mover would make one, to find out what becomes of it.
namespace csidelta::doctor {

// The image of workers, which is that of the mover's Deployment; "" after having said why it is not
// known.
std::string ImageOfWorkers(CheckContext& context);

// The storage classes of PVCs that can become block devices.
std::set<std::string> ClassesInUse(CheckContext& context);

// "doctor-" and a number of no meaning: another one each time.
std::string SampleName(CheckContext& context);

// A PVC of 1 GiB for a block device, with the labels of a worker's.
objects::PersistentVolumeClaim SampleClaim(absl::string_view namespace_name, absl::string_view name,
                                           absl::string_view storage_class);

// A worker in all but its task: it backs up the PVC of the same name into `repository`.
objects::Pod SampleWorker(absl::string_view namespace_name, absl::string_view name,
                          absl::string_view image, absl::string_view storage_class,
                          absl::string_view repository, const datamover::MoverSettings& settings);

}  // namespace csidelta::doctor
