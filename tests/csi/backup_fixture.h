#pragma once

#include <gtest/gtest.h>

#include "base/call_context.h"
#include "base/random.h"
#include "csi/environment.h"
#include "objects/backup.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/snapshot_objects.h"
#include "tests/support/typed.h"

namespace csidelta::csi {

// A backup "nightly" of the Velero in "velero", and a cluster without controllers: which of them
// there are is for the test to say.
class BackupFixture : public testing::Test {
 protected:
  BackupFixture() {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
  }

  // The backup, as another one's uid and timeout would make it.
  static objects::Backup BackupWith(absl::string_view uid, absl::string_view timeout = "10m") {
    Json backup = support::MakeBackupObject("nightly", "InProgress", std::string(uid));
    backup["spec"]["csiSnapshotTimeout"] = timeout;
    return support::As<objects::Backup>(backup);
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  Environment env_{.api = api_,
                   .clock = clock_,
                   .random = Random::Real(),
                   .velero_namespace = "velero",
                   .enable_csi = true};
  objects::Backup backup_ = BackupWith("backup-uid");
  CallContext ctx_;
};

}  // namespace csidelta::csi
