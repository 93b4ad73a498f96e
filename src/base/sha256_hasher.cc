#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/crypto.h"
#include "base/sha256_blocks.h"

namespace csidelta {
namespace {

const uint8_t* AsBlocks(absl::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

// SHA-256 on the processor's instructions. A value.
class NativeSha256 {
 public:
  void Update(absl::string_view bytes) {
    bytes.remove_prefix(FillBlock(bytes));
    const std::size_t blocks = bytes.size() / kSha256BlockBytes;
    AddSha256Blocks({&state_, AsBlocks(bytes)}, blocks);
    Keep(bytes, blocks);
  }

  // Update(bytes), and other.Update(other_bytes), in turns.
  void UpdateBeside(absl::string_view bytes, NativeSha256& other, absl::string_view other_bytes) {
    bytes.remove_prefix(FillBlock(bytes));
    other_bytes.remove_prefix(other.FillBlock(other_bytes));
    const std::size_t both = std::min(bytes.size(), other_bytes.size()) / kSha256BlockBytes;
    AddSha256Blocks({&state_, AsBlocks(bytes)}, {&other.state_, AsBlocks(other_bytes)}, both);
    const std::size_t done_bytes = both * kSha256BlockBytes;
    total_bytes_ += done_bytes;
    other.total_bytes_ += done_bytes;
    Update(bytes.substr(done_bytes));
    other.Update(other_bytes.substr(done_bytes));
  }

  Sha256Digest Finish() {
    const uint64_t total_bits = total_bytes_ * 8;
    std::array<char, kSha256BlockBytes + 8> padding = {'\x80'};
    const std::size_t used = block_bytes_ % kSha256BlockBytes;
    const std::size_t zeros_end = used < 56 ? 56 - used : 120 - used;
    for (std::size_t i = 0; i < 8; ++i) {
      padding[zeros_end + i] = static_cast<char>(static_cast<uint8_t>(total_bits >> (56 - 8 * i)));
    }
    Update({padding.data(), zeros_end + 8});
    Sha256Digest digest;
    for (std::size_t i = 0; i < digest.size(); ++i) {
      digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
    *this = NativeSha256();
    return digest;
  }

 private:
  // Takes bytes from the front until no block is begun, or until they end. Returns how many.
  std::size_t FillBlock(absl::string_view bytes) {
    if (block_bytes_ == 0) {
      return 0;
    }
    const std::size_t taken = std::min(bytes.size(), kSha256BlockBytes - block_bytes_);
    Buffer(bytes.substr(0, taken));
    if (block_bytes_ == kSha256BlockBytes) {
      AddSha256Blocks({&state_, block_.data()}, 1);
      block_bytes_ = 0;
    }
    return taken;
  }

  // Notes that `blocks` blocks went in, and keeps what follows them.
  void Keep(absl::string_view bytes, std::size_t blocks) {
    total_bytes_ += blocks * kSha256BlockBytes;
    Buffer(bytes.substr(blocks * kSha256BlockBytes));
  }

  void Buffer(absl::string_view bytes) {
    if (!bytes.empty()) {
      std::memcpy(block_.data() + block_bytes_, bytes.data(), bytes.size());
      block_bytes_ += bytes.size();
      total_bytes_ += bytes.size();
    }
  }

  Sha256State state_ = kSha256Initial;
  std::array<uint8_t, kSha256BlockBytes> block_{};
  std::size_t block_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace

// One of the two does the work: OpenSSL where the processor has no instructions for it.
struct Sha256Hasher::Context {
  NativeSha256 native;
  EVP_MD_CTX* md = HasSha256Instructions() ? nullptr : EVP_MD_CTX_new();

  Context() {
    if (!HasSha256Instructions()) {
      Start();
    }
  }
  ~Context() { EVP_MD_CTX_free(md); }

  void Start() const {
    static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    CSIDELTA_CHECK(md != nullptr && EVP_DigestInit_ex2(md, algorithm, nullptr) == 1);
  }
};

Sha256Hasher::Sha256Hasher() : context_(std::make_unique<Context>()) {}
Sha256Hasher::~Sha256Hasher() = default;
Sha256Hasher::Sha256Hasher(Sha256Hasher&&) noexcept = default;
Sha256Hasher& Sha256Hasher::operator=(Sha256Hasher&&) noexcept = default;

void Sha256Hasher::Update(absl::string_view bytes) {
  if (context_->md == nullptr) {
    context_->native.Update(bytes);
  } else {
    CSIDELTA_CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
  }
}

Sha256Digest Sha256Hasher::UpdateBeside(absl::string_view bytes, absl::string_view message) {
  if (context_->md == nullptr) {
    NativeSha256 other;
    context_->native.UpdateBeside(bytes, other, message);
    return other.Finish();
  }
  Update(bytes);
  return Sha256(message);
}

Sha256Digest Sha256Hasher::Finish() {
  if (context_->md == nullptr) {
    return context_->native.Finish();
  }
  Sha256Digest digest;
  CSIDELTA_CHECK(EVP_DigestFinal_ex(context_->md, digest.data(), nullptr) == 1);
  context_->Start();
  return digest;
}

std::pair<Sha256Digest, Sha256Digest> Sha256OfTwo(absl::string_view first,
                                                  absl::string_view second) {
  Sha256Hasher hasher;
  const Sha256Digest of_second = hasher.UpdateBeside(first, second);
  return {hasher.Finish(), of_second};
}

}  // namespace csidelta
