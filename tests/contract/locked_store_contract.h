#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "storage/object_store.h"

namespace csidelta::contract {

// A bucket with versions and object locks under the contract, without objects below its prefix.
// Owns what it needs; a new one for every test.
class LockedStoreSubject {
 public:
  virtual ~LockedStoreSubject() = default;
  virtual storage::ObjectStore& store() = 0;
  virtual absl::Time Now() = 0;
  virtual void Pass(absl::Duration time) = 0;
  // What no client of csi-delta may do.
  virtual absl::Status DeleteBypassingGovernance(const std::string& key,
                                                 const std::string& version) = 0;
  virtual absl::Status SetLegalHold(const std::string& key, const std::string& version,
                                    bool on) = 0;
  // "": none.
  virtual absl::Status SetDefaultRetention(const std::string& mode, int days) = 0;
  // Each Put() asks for it from now on.
  virtual void LockPuts(const std::string& mode, absl::Duration duration) = 0;
};

struct LockedStoreCase {
  const char* name;
  std::function<std::unique_ptr<LockedStoreSubject>()> make;
  // Rules of S3 that a server may not keep: an earlier date in the same mode is refused; governance
  // becomes compliance for everybody who may set a retention.
  bool refuses_earlier_dates = true;
  bool lets_governance_become_compliance = true;
};
inline std::ostream& operator<<(std::ostream& out, const LockedStoreCase& subject) {
  return out << subject.name;
}

// The rules of S3 for versions, delete markers and object locks on which csi-delta relies. The
// suite that FakeLockedStore and real servers pass: INSTANTIATE_TEST_SUITE_P(Name,
// LockedStoreContract, testing::ValuesIn(...)).
class LockedStoreContract : public testing::TestWithParam<LockedStoreCase> {
 protected:
  LockedStoreContract() : subject_(GetParam().make()), store_(subject_->store()) {}

  // Puts it, and returns the id of its version.
  std::string MustPut(const std::string& key, const std::string& bytes);
  void MustLock(const std::string& key, const std::string& version, const std::string& mode,
                absl::Duration duration);
  std::vector<storage::ObjectVersion> VersionsOf(const std::string& key);
  absl::Status SetRetention(const std::string& key, const std::string& version,
                            const std::string& mode, absl::Duration from_now);
  // By the subject's clock, in whole seconds.
  absl::Time Soon(absl::Duration from_now);

  std::unique_ptr<LockedStoreSubject> subject_;
  storage::ObjectStore& store_;
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(60));
};

}  // namespace csidelta::contract
