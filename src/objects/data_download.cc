#include "objects/data_download.h"

namespace csidelta::objects {

void DataDownload::SetTarget(absl::string_view pvc_namespace, absl::string_view pvc,
                             absl::string_view volume) {
  Set({"spec", "targetVolume"}, {{"namespace", std::string(pvc_namespace)},
                                 {"pvc", std::string(pvc)},
                                 {"pv", std::string(volume)}});
}

std::string FormatRestoredBytes(const RestoredBytes& bytes) {
  return DumpJson({{"logical_bytes", bytes.logical},
                   {"compared_bytes", bytes.compared},
                   {"written_bytes", bytes.written},
                   {"zero_bytes", bytes.zero},
                   {"kept_bytes", bytes.kept}});
}

}  // namespace csidelta::objects
