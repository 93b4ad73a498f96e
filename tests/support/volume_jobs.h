#pragma once

#include <string>
#include <utility>

#include "objects/volume_job.h"
#include "objects/volume_task.h"

namespace csidelta::support {

// As it stands in a task once it was merged there.
inline Json StoredJob(const objects::VolumeJob& job) {
  Json stored = Json::object();
  stored.merge_patch(ToJson(job));
  return stored;
}

// A VolumeTask of the namespace "mover" that a worker can begin with.
inline Json TaskWithJob(const std::string& name,
                        objects::VolumeJob job = {
                            .repository = {.address = "/repository"},
                            .work = objects::UploadWork{.device = "/dev/volume"}}) {
  Json task = objects::VolumeTask::Make(
                  "mover", name, {.kind = static_cast<objects::TaskKind>(job.work.index())}, {})
                  .json();
  SetJson(task, {"spec", "job"}, StoredJob(job));
  return task;
}

}  // namespace csidelta::support
