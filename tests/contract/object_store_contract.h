#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace csidelta::contract {

// One implementation of ObjectStore under the contract, without objects. Owns what it needs; a new
// one for every test.
class ObjectStoreSubject {
 public:
  virtual ~ObjectStoreSubject() = default;
  virtual storage::ObjectStore& store() = 0;
  // From now on the place refuses to delete that object. False where no place is to refuse.
  virtual bool Refuse(const std::string& /*key*/) { return false; }
};

struct ObjectStoreCase {
  const char* name;
  std::function<std::unique_ptr<ObjectStoreSubject>()> make;
  // Do conditional puts exclude each other when they come at the same moment? Not on every S3
  // server: one that keeps objects as files may look first and write later.
  bool if_absent_excludes = true;
  bool if_absent_is_heeded = true;  // else overlooked: such a store cannot be told from others
};
inline std::ostream& operator<<(std::ostream& out, const ObjectStoreCase& subject) {
  return out << subject.name;
}

// The suite that every ObjectStore passes: INSTANTIATE_TEST_SUITE_P(Name, ObjectStoreContract,
// testing::Values(ObjectStoreCase{...})).
class ObjectStoreContract : public testing::TestWithParam<ObjectStoreCase> {
 protected:
  ObjectStoreContract() : subject_(GetParam().make()), store_(subject_->store()) {}

  void MustPut(const std::string& key, const std::string& bytes);
  // Keys and sizes of what is listed; a key that comes twice fails the test.
  std::map<std::string, int64_t> MustList(const std::string& prefix, bool of_folder = false);
  std::map<std::string, int64_t> MustListFolder(const std::string& prefix);
  // What is told of each; one that is told twice, or not at all, fails the test.
  std::map<std::string, absl::Status> DeleteMany(const CallContext& ctx,
                                                 const std::vector<std::string>& keys);

  std::unique_ptr<ObjectStoreSubject> subject_;
  storage::ObjectStore& store_;
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(60));
};

}  // namespace csidelta::contract
