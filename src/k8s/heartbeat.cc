#include "k8s/heartbeat.h"

#include "absl/strings/str_cat.h"

namespace csidelta::k8s {

absl::Duration Heartbeat::Age(const Clock& clock) const {
  const int64_t at_ns = at_ns_;
  return at_ns == kNever ? absl::ZeroDuration() : clock.Uptime() - absl::Nanoseconds(at_ns);
}

net::HttpResponse HealthOf(const std::vector<LoopAge>& loops, absl::Duration age_max) {
  net::HttpResponse response;
  response.status = 200;
  response.headers["content-type"] = "text/plain; charset=utf-8";
  for (const LoopAge& loop : loops) {
    if (loop.age > age_max) {
      response.status = 503;
      absl::StrAppend(&response.body, loop.name, " has stood still for ",
                      absl::FormatDuration(absl::Trunc(loop.age, absl::Seconds(1))), "\n");
    }
  }
  if (response.status == 200) {
    response.body = "ok\n";
  }
  return response;
}

}  // namespace csidelta::k8s
