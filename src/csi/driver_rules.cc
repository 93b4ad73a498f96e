#include "csi/driver_rules.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace csidelta::csi {
namespace {

constexpr std::array kDriverRules = {
    DriverRules{"csi.vsphere.vmware.com", 3, DriverAnswer::kNo, DriverAnswer::kNo},
    DriverRules{"rbd.csi.ceph.com", 450, DriverAnswer::kYes, DriverAnswer::kYes,
                "counts clones in the trash of the pool: see `rbd trash ls`"},
    DriverRules{"cephfs.csi.ceph.com", 100},
    DriverRules{"driver.longhorn.io", 250, DriverAnswer::kYes, DriverAnswer::kYes},
    DriverRules{"ebs.csi.aws.com", 0, DriverAnswer::kUnknown, DriverAnswer::kYes,
                "limits how often a snapshot of a volume is taken"},
    DriverRules{"pd.csi.storage.gke.io", 0, DriverAnswer::kUnknown, DriverAnswer::kUnknown,
                "takes one snapshot of a volume in 10 minutes"},
    DriverRules{"dobs.csi.digitalocean.com", 0, DriverAnswer::kUnknown, DriverAnswer::kUnknown,
                "takes one snapshot of a volume in 10 minutes"},
    DriverRules{"disk.csi.azure.com", 0, DriverAnswer::kUnknown, DriverAnswer::kUnknown,
                "takes minutes for a snapshot of a Premium SSD v2 or Ultra disk"},
    DriverRules{"csi.trident.netapp.io", 0, DriverAnswer::kUnknown, DriverAnswer::kNo},
    DriverRules{"cinder.csi.openstack.org", 0, DriverAnswer::kUnknown, DriverAnswer::kNo},
    DriverRules{"local.csi.openebs.io", 0, DriverAnswer::kNo, DriverAnswer::kUnknown},
    DriverRules{"zfs.csi.openebs.io", 0, DriverAnswer::kUnknown, DriverAnswer::kNo},
};

}  // namespace

absl::string_view ToString(DriverAnswer answer) {
  return answer == DriverAnswer::kYes ? "yes" : answer == DriverAnswer::kNo ? "no" : "unknown";
}

absl::Span<const DriverRules> AllDriverRules() { return kDriverRules; }

DriverRules RulesOf(absl::string_view driver) {
  const auto* const found =
      std::find_if(kDriverRules.begin(), kDriverRules.end(),
                   [driver](const DriverRules& rules) { return rules.driver == driver; });
  return found == kDriverRules.end() ? DriverRules{.driver = driver} : *found;
}

std::string LimitsText(const DriverRules& rules) {
  std::vector<std::string> limits;
  if (rules.snapshots_max > 0) {
    limits.push_back(
        absl::StrCat("keeps at most ", rules.snapshots_max, " snapshots of a volume by default"));
  }
  if (rules.grows == DriverAnswer::kNo) {
    limits.push_back("grows no volume that has snapshots");
  }
  if (rules.deletes == DriverAnswer::kNo) {
    limits.push_back("deletes no volume that has snapshots");
  }
  if (!rules.note.empty()) {
    limits.push_back(std::string(rules.note));
  }
  return absl::StrJoin(limits, ", ");
}

}  // namespace csidelta::csi
