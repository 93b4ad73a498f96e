#include "objects/cron_job.h"

#include <utility>

namespace csidelta::objects {

Object MakeCronJob(const CronJobPlan& plan) {
  Json spec = {{"schedule", plan.schedule},
               {"suspend", plan.is_suspended},
               {"concurrencyPolicy", "Forbid"},
               {"startingDeadlineSeconds", plan.start_seconds_max},
               {"successfulJobsHistoryLimit", 1},
               {"failedJobsHistoryLimit", 3},
               {"jobTemplate",
                {{"spec", {{"backoffLimit", 0}, {"template", {{"spec", ToJson(plan.pod)}}}}}}}};
  if (!plan.time_zone.empty()) {
    spec["timeZone"] = plan.time_zone;
  }
  return Object({{"apiVersion", "batch/v1"},
                 {"kind", "CronJob"},
                 {"metadata", {{"name", plan.name}, {"namespace", plan.namespace_name}}},
                 {"spec", std::move(spec)}});
}

}  // namespace csidelta::objects
