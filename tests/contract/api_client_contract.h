#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "k8s/api_client.h"

namespace csidelta::contract {

// One implementation of ApiClient under the contract. Owns what it needs; a new one for every test.
class ApiClientSubject {
 public:
  virtual ~ApiClientSubject() = default;
  virtual k8s::ApiClient& client() = 0;
  // A namespace that exists and holds nothing managed.
  virtual std::string namespace_name() = 0;
};

struct ApiClientCase {
  const char* name;
  std::function<std::unique_ptr<ApiClientSubject>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const ApiClientCase& subject) {
  return out << subject.name;
}

// The suite that every ApiClient passes: INSTANTIATE_TEST_SUITE_P(Name, ApiClientContract,
// testing::Values(ApiClientCase{...})).
class ApiClientContract : public testing::TestWithParam<ApiClientCase> {
 protected:
  ApiClientContract() : subject_(GetParam().make()), client_(subject_->client()) {}

  k8s::ObjectKey Key(const k8s::ResourceType& type, const std::string& name) const;
  // A ConfigMap or claim as a user would write it.
  Json ConfigMap(const std::string& name) const;
  Json Claim(const std::string& name) const;
  // Creates it, or fails the test.
  Json MustCreate(const k8s::ResourceType& type, const Json& object);

  std::unique_ptr<ApiClientSubject> subject_;
  k8s::ApiClient& client_;
  const std::string namespace_ = subject_->namespace_name();
  CallContext ctx_ = CallContext().WithTimeout(absl::Seconds(30));
};

extern const k8s::ResourceType kConfigMaps;
extern const k8s::ResourceType kClaims;
extern const k8s::ResourceType kPods;
extern const k8s::ResourceType kStorageClasses;
extern const k8s::ResourceType kServiceAccounts;
extern const k8s::ResourceType kEvents;
extern const k8s::ResourceType kSelfReviews;
extern const k8s::ResourceType kAccessReviews;
extern const k8s::ResourceType kUnknownKind;

}  // namespace csidelta::contract
