#pragma once

#include <string>
#include <utility>

#include "datamover/volume_job.h"
#include "datamover/volume_task.h"

namespace csidelta::support {

// A VolumeTask of the namespace "mover" that a worker can begin with.
inline Json TaskWithJob(const std::string& name,
                        datamover::VolumeJob job = {
                            .repository = {.address = "/repository"},
                            .work = datamover::UploadWork{.device = "/dev/volume"}}) {
  Json task = datamover::MakeVolumeTask(
      "mover", name, {.kind = static_cast<datamover::TaskKind>(job.work.index())}, {});
  SetJson(task, {"spec", "job"}, ToJson(job));
  return task;
}

}  // namespace csidelta::support
