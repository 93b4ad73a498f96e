#include "objects/lease.h"

#include "base/rfc3339.h"

namespace csidelta::objects {

void Lease::Acquire(absl::string_view holder, absl::Duration duration, absl::Time now) {
  const std::string text = FormatRfc3339Micros(now);
  Set({"spec"}, {{"holderIdentity", std::string(holder)},
                 {"leaseDurationSeconds", absl::ToInt64Seconds(duration)},
                 {"acquireTime", text},
                 {"renewTime", text}});
}

void Lease::Renew(absl::Time now) { Set({"spec", "renewTime"}, FormatRfc3339Micros(now)); }

}  // namespace csidelta::objects
