#pragma once

#include "storage/credentials.h"

namespace csidelta::support {

// The keys that FakeS3Server knows by default, for ever.
class FixedCredentials : public storage::CredentialsProvider {
 public:
  absl::StatusOr<storage::Credentials> Get(const CallContext&) override {
    return storage::Credentials{.access_key_id = "AKIDTEST",
                                .secret_access_key = Secret("secret/key+of=test"),
                                .session_token = Secret()};
  }
  void Forget() override {}
  bool MayBeExchanged() const override { return false; }
};

}  // namespace csidelta::support
