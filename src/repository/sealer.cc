#include "repository/sealer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crypto.h"

namespace csidelta::repository {
namespace {

CtrPoly1305::Iv ReadIv(absl::Span<const uint8_t> envelope) {
  CtrPoly1305::Iv iv;
  std::copy_n(envelope.begin(), iv.size(), iv.begin());
  return iv;
}

bool IsZero(const CtrPoly1305::Iv& iv) {
  return std::all_of(iv.begin(), iv.end(), [](uint8_t byte) { return byte == 0; });
}

constexpr absl::string_view kBoundLabel("csi-delta sidecar 1\0", 20);

}  // namespace

SealKey KeyBoundTo(const SealKey& master, absl::string_view name) {
  const std::string key =
      absl::StrCat(AsText(master.encrypt), AsText(master.mac_k), AsText(master.mac_r));
  const Sha256Digest first = HmacSha256(key, absl::StrCat(kBoundLabel, name, "\1"));
  const Sha256Digest second = HmacSha256(key, absl::StrCat(kBoundLabel, name, "\2"));
  SealKey bound;
  std::copy(first.begin(), first.end(), bound.encrypt.begin());
  std::copy_n(second.begin(), bound.mac_k.size(), bound.mac_k.begin());
  std::copy(second.begin() + bound.mac_k.size(), second.end(), bound.mac_r.begin());
  return bound;
}

void Sealer::Seal(absl::Span<const uint8_t> plaintext, absl::Span<uint8_t> out) {
  CSIDELTA_CHECK(out.size() == plaintext.size() + kEnvelopeBytes);
  CtrPoly1305::Iv iv;
  do {
    random_->Fill(absl::MakeSpan(iv));
  } while (IsZero(iv));  // Readers refuse it.
  std::copy(iv.begin(), iv.end(), out.begin());
  const absl::Span<uint8_t> ciphertext = out.subspan(kIvBytes, plaintext.size());
  cipher_.Crypt(iv, plaintext, ciphertext.data());
  const CtrPoly1305::Tag tag = cipher_.Mac(iv, ciphertext);
  std::copy(tag.begin(), tag.end(), out.end() - kMacBytes);
}

std::string Sealer::Seal(absl::string_view plaintext) {
  std::string envelope(plaintext.size() + kEnvelopeBytes, '\0');
  Seal(AsBytes(plaintext), {reinterpret_cast<uint8_t*>(envelope.data()), envelope.size()});
  return envelope;
}

absl::Status Sealer::Open(absl::Span<const uint8_t> envelope, absl::Span<uint8_t> out) {
  if (envelope.size() < std::size_t{kEnvelopeBytes}) {
    return absl::DataLossError("sealed bytes are too short");
  }
  CSIDELTA_CHECK(out.size() + kEnvelopeBytes == envelope.size());
  const CtrPoly1305::Iv iv = ReadIv(envelope);
  const absl::Span<const uint8_t> ciphertext = envelope.subspan(kIvBytes, out.size());
  const CtrPoly1305::Tag tag = cipher_.Mac(iv, ciphertext);
  if (IsZero(iv) || !ConstantTimeEqual(tag, envelope.last(kMacBytes))) {
    return absl::DataLossError("sealed bytes fail their MAC");
  }
  cipher_.Crypt(iv, ciphertext, out.data());
  return absl::OkStatus();
}

absl::StatusOr<std::string> Sealer::Open(absl::string_view envelope) {
  if (envelope.size() < std::size_t{kEnvelopeBytes}) {
    return absl::DataLossError("sealed bytes are too short");
  }
  std::string plaintext(envelope.size() - kEnvelopeBytes, '\0');
  const absl::Status opened =
      Open(AsBytes(envelope), {reinterpret_cast<uint8_t*>(plaintext.data()), plaintext.size()});
  if (!opened.ok()) {
    return opened;
  }
  return plaintext;
}

}  // namespace csidelta::repository
