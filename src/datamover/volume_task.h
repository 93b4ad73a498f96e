#pragma once

#include "datamover/outcome.h"
#include "objects/volume_job.h"
#include "objects/volume_task.h"

// What workers are told and tell (objects/volume_task.h), by the names that it has here.
namespace csidelta::datamover {

using objects::CauseOf;
using objects::CheckWork;
using objects::DownloadWork;
using objects::ForgetItem;
using objects::ForgetWork;
using objects::IsLast;
using objects::JobLimits;
using objects::JobRepository;
using objects::MessageOf;
using objects::TaskKind;
using objects::TaskPhase;
using objects::TaskSubject;
using objects::TaskVolume;
using objects::ToString;
using objects::UploadWork;
using objects::VolumeJob;
using objects::VolumeTask;
using objects::VolumeTaskSpec;
using objects::VolumeTaskStatus;
using objects::VolumeWork;

}  // namespace csidelta::datamover
