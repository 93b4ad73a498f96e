#include "tests/support/finished_upload.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/json.h"

namespace csidelta::support {

std::string FinishedUpload() {
  Json annotations;
  for (int i = 0; i < 25; ++i) {
    annotations[absl::StrCat("example.com/annotation-", i)] = std::string(30, 'a');
  }
  Json fields;
  for (int i = 0; i < 55; ++i) {
    fields[absl::StrCat("f:a-field-that-another client-wrote-", i)] = Json::object();
  }
  return DumpJson(
      {{"metadata",
        {{"name", "nightly-NIGHT-NUMBER"},
         {"namespace", "velero"},
         {"uid", "0d9d2f5c-0000-4000-8000-NUMBER"},
         {"resourceVersion", "1NUMBER"},
         {"creationTimestamp", "2026-11-01T02:00:00Z"},
         {"labels", {{"velero.io/backup-name", "nightly-NIGHT"}}},
         {"annotations", annotations},
         {"ownerReferences",
          {{{"apiVersion", "velero.io/v1"},
            {"kind", "Backup"},
            {"name", "nightly-NIGHT"},
            {"uid", "backup-uid-NIGHT"},
            {"controller", true}}}},
         {"managedFields",
          {{{"manager", "velero-server"}, {"operation", "Update"}, {"fieldsV1", fields}}}}}},
       {"spec",
        {{"snapshotType", "CSI"},
         {"datamover", "csi-delta"},
         {"sourceNamespace", "app-VOLUME"},
         {"sourcePVC", "data"},
         {"operationTimeout", "10m0s"},
         {"backupStorageLocation", "default"},
         {"csiSnapshot",
          {{"volumeSnapshot", "velero-data-NUMBER"},
           {"storageClass", "fast"},
           {"snapshotClass", "fast"},
           {"driver", "driver.example.com"}}}}},
       {"status",
        {{"phase", "Completed"},
         {"snapshotID", "csi-delta/NUMBER"},
         {"progress", {{"bytesDone", 1 << 30}, {"totalBytes", 1 << 30}}},
         {"completionTimestamp", "2026-11-01T02:10:00Z"}}}});
}

std::string FinishedUpload(const std::string& form, int number, int nights) {
  return absl::StrReplaceAll(form, {{"NUMBER", absl::StrCat(100'000 + number)},
                                    {"VOLUME", absl::StrCat(number / nights)},
                                    {"NIGHT", absl::StrCat(number % nights)}});
}

}  // namespace csidelta::support
