#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/cipher.h"
#include "repository/key.h"
#include "repository/repository.h"
#include "tests/support/fake_object_store.h"

namespace csidelta::repository {

// Replaces the key files of a repository by one with the same password that opens at once instead
// of after 66 ms: for tests that open it hundreds of times.
inline void UseCheapKey(support::FakeObjectStore& store, const Repository& repository,
                        absl::string_view password) {
  KeyFile file;
  file.scrypt = {.n = 2, .r = 8, .p = 1};
  file.salt = std::string(kKeySaltBytes, 's');
  std::array<uint8_t, 64> derived;
  ASSERT_TRUE(DeriveScrypt(password, AsBytes(file.salt), file.scrypt, kScryptMemoryBytesMax,
                           absl::MakeSpan(derived))
                  .ok());
  SealKey wrapping;
  std::copy_n(derived.begin(), 32, wrapping.encrypt.begin());
  std::copy_n(derived.begin() + 32, 16, wrapping.mac_k.begin());
  std::copy_n(derived.begin() + 48, 16, wrapping.mac_r.begin());
  const SealKey& master = repository.master_key();
  const std::string json =
      absl::StrCat("{\"mac\":{\"k\":\"", absl::Base64Escape(AsText(master.mac_k)), "\",\"r\":\"",
                   absl::Base64Escape(AsText(master.mac_r)), "\"},\"encrypt\":\"",
                   absl::Base64Escape(AsText(master.encrypt)), "\"}");
  file.data = Sealer(wrapping, *repository.environment().random).Seal(absl::string_view(json));
  const std::string text = EncodeKeyFile(file);
  for (const auto& [key, bytes] : store.objects()) {
    if (key.starts_with("keys/")) {
      store.RemoveObject(key);
    }
  }
  store.SetObject(absl::StrCat("keys/", Id::Of(text).Hex()), text);
}

}  // namespace csidelta::repository
