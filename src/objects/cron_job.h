#pragma once

#include <string>

#include "objects/object.h"
#include "objects/restricted_pod.h"

namespace csidelta::objects {

// What a CronJob is made from: it starts one Pod at a time, which is not tried again when it fails.
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

}  // namespace csidelta::objects
