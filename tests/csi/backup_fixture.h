#pragma once

#include <gtest/gtest.h>

#include "base/call_context.h"
#include "base/random.h"
#include "csi/environment.h"
#include "tests/support/fake_api_client.h"
#include "tests/support/fake_clock.h"
#include "velero/backup.h"

namespace csidelta::csi {

// A backup "nightly" of the Velero in "velero", and a cluster without controllers: which of them
// there are is for the test to say.
class BackupFixture : public testing::Test {
 protected:
  BackupFixture() {
    ctx_.clock = &clock_;
    clock_.SetAutoAdvance(true);
    backup_.name = "nightly";
    backup_.uid = "backup-uid";
    backup_.namespace_name = "velero";
    backup_.csi_snapshot_timeout = absl::Minutes(10);
  }

  support::FakeClock clock_;
  support::FakeApiClient api_{clock_};
  Environment env_{.api = api_,
                   .clock = clock_,
                   .random = Random::Real(),
                   .velero_namespace = "velero",
                   .enable_csi = true};
  velero::Backup backup_;
  CallContext ctx_;
};

}  // namespace csidelta::csi
