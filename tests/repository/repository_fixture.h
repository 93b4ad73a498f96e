#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/call_context.h"
#include "repository/repository.h"
#include "tests/support/cheap_scrypt.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_object_store.h"
#include "tests/support/fake_secure_random.h"
#include "tests/support/status_matchers.h"

namespace csidelta::repository {

inline constexpr char kTestPassword[] = "correct horse battery staple";

// A repository in memory.
class RepositoryFixture : public testing::Test {
 protected:
  RepositoryFixture() {
    clock_.SetAutoAdvance(true);
    ctx_.clock = &clock_;
    environment_.random = &random_;
    environment_.scrypt = support::kCheapScrypt;
  }

  std::unique_ptr<Repository> Init() {
    auto repository = Repository::Init(ctx_, store_, kTestPassword, environment_);
    EXPECT_THAT(repository, support::IsOk());
    return *std::move(repository);
  }

  std::unique_ptr<Repository> Open() {
    auto repository = Repository::Open(ctx_, store_, kTestPassword, environment_);
    EXPECT_THAT(repository, support::IsOk());
    return *std::move(repository);
  }

  std::vector<std::string> KeysBelow(const std::string& prefix) const {
    std::vector<std::string> keys;
    for (const auto& [key, bytes] : store_.objects()) {
      if (key.starts_with(prefix)) {
        keys.push_back(key);
      }
    }
    return keys;
  }

  support::FakeClock clock_;
  support::FakeSecureRandom random_;
  support::FakeObjectStore store_;
  CallContext ctx_;
  Environment environment_;
};

}  // namespace csidelta::repository
