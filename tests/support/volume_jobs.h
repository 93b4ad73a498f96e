#pragma once

#include <string>
#include <utility>

#include "datamover/volume_job.h"
#include "datamover/volume_task.h"

namespace csidelta::support {

// As it stands in a task once it was merged there.
inline Json StoredJob(const datamover::VolumeJob& job) {
  Json stored = Json::object();
  stored.merge_patch(ToJson(job));
  return stored;
}

// A VolumeTask of the namespace "mover" that a worker can begin with.
inline Json TaskWithJob(const std::string& name,
                        datamover::VolumeJob job = {
                            .repository = {.address = "/repository"},
                            .work = datamover::UploadWork{.device = "/dev/volume"}}) {
  Json task = datamover::MakeVolumeTask(
      "mover", name, {.kind = static_cast<datamover::TaskKind>(job.work.index())}, {});
  SetJson(task, {"spec", "job"}, StoredJob(job));
  return task;
}

}  // namespace csidelta::support
