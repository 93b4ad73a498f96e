#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "objects/object.h"

namespace csidelta::objects {

class Lease : public ObjectOf<Lease> {
 public:
  static constexpr KindName kKind = {"coordination.k8s.io", "v1", "leases", "Lease"};

  std::string holder() const { return Text({"spec", "holderIdentity"}); }
  // By the holder's clock; nothing where it was never renewed.
  std::optional<absl::Time> renewed_at() const { return TimeAt({"spec", "renewTime"}); }

  void SetHolder(absl::string_view holder) { Set({"spec", "holderIdentity"}, holder); }
  // Acquired at `now`, to last for `duration` (whole seconds) unless it is renewed. Of the spec
  // nothing else stays.
  void Acquire(absl::string_view holder, absl::Duration duration, absl::Time now) {
    const std::string text = FormatRfc3339Micros(now);
    Set({"spec"}, {{"holderIdentity", holder},
                   {"leaseDurationSeconds", absl::ToInt64Seconds(duration)},
                   {"acquireTime", text},
                   {"renewTime", text}});
  }
  void Renew(absl::Time now) { Set({"spec", "renewTime"}, FormatRfc3339Micros(now)); }
};

}  // namespace csidelta::objects
