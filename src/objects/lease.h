#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "objects/object.h"

namespace csidelta::objects {

class Lease : public ObjectOf<Lease> {
 public:
  static constexpr KindName kKind = {"coordination.k8s.io", "v1", "leases", "Lease"};

  std::string holder() const { return Text({"spec", "holderIdentity"}); }
  // By the holder's clock; nothing where it was never renewed.
  std::optional<absl::Time> renewed_at() const { return TimeAt({"spec", "renewTime"}); }

  void SetHolder(absl::string_view holder) { Set({"spec", "holderIdentity"}, std::string(holder)); }
  // Acquired at `now`, to last for `duration` (whole seconds) unless it is renewed. Of the spec
  // nothing else stays.
  void Acquire(absl::string_view holder, absl::Duration duration, absl::Time now);
  void Renew(absl::Time now);

 private:
  using ObjectOf::ObjectOf;
};

}  // namespace csidelta::objects
