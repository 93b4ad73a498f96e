#include "storage/s3_xml.h"

#include <expat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "net/url.h"

namespace csidelta::storage {
namespace {

// One document on its way through the parser. Its callbacks stop it at the first fault.
class Reader {
 public:
  explicit Reader(ElementSink sink) : parser_(XML_ParserCreate(nullptr)), sink_(sink) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), OnStart, OnEnd);
    XML_SetCharacterDataHandler(parser_.get(), OnText);
    XML_SetStartDoctypeDeclHandler(parser_.get(), OnDoctype);
  }

  absl::Status Read(absl::string_view xml) {
    if (std::ssize(xml) > kXmlBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("XML of ", xml.size(), " bytes"));
    }
    const XML_Status parsed =
        XML_Parse(parser_.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE);
    RETURN_IF_ERROR(status_);
    if (parsed != XML_STATUS_OK) {
      return absl::InvalidArgumentError(
          absl::StrCat("not XML: ", XML_ErrorString(XML_GetErrorCode(parser_.get())), " in line ",
                       XML_GetCurrentLineNumber(parser_.get())));
    }
    return absl::OkStatus();
  }

 private:
  struct Deleter {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };

  static Reader& Self(void* self) { return *static_cast<Reader*>(self); }

  static void XMLCALL OnStart(void* self, const XML_Char* name, const XML_Char**) {
    Reader& reader = Self(self);
    if (std::ssize(reader.starts_) >= kXmlDepthMax) {
      return reader.Stop(absl::InvalidArgumentError("XML nested too deep"));
    }
    reader.starts_.push_back(reader.path_.size());
    absl::StrAppend(&reader.path_, reader.path_.empty() ? "" : "/", name);
    reader.text_.clear();
  }

  static void XMLCALL OnEnd(void* self, const XML_Char*) {
    Reader& reader = Self(self);
    absl::Status status = reader.sink_(reader.path_, std::exchange(reader.text_, {}));
    reader.path_.resize(reader.starts_.back());
    reader.starts_.pop_back();
    if (!status.ok()) {
      reader.Stop(status);
    }
  }

  static void XMLCALL OnText(void* self, const XML_Char* text, int length_bytes) {
    Reader& reader = Self(self);
    reader.text_.append(text, static_cast<std::size_t>(length_bytes));
    if (std::ssize(reader.text_) > kXmlTextBytesMax) {
      reader.Stop(absl::InvalidArgumentError("XML with a value that is too long"));
    }
  }

  // Entities are declared in there, and what they expand to has no bounds.
  static void XMLCALL OnDoctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*,
                                int) {
    Self(self).Stop(absl::InvalidArgumentError("XML with a document type"));
  }

  // The parser may call back once more after it was stopped; the first fault counts.
  void Stop(const absl::Status& status) {
    status_.Update(status);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  const std::unique_ptr<XML_ParserStruct, Deleter> parser_;
  const ElementSink sink_;
  std::string path_;
  std::vector<std::size_t> starts_;  // Length of path_ before each open element.
  std::string text_;
  absl::Status status_;
};

// What encoding-type=url did to a key.
std::string DecodeKey(const std::string& key) {
  return net::PercentDecode(absl::StrReplaceAll(key, {{"+", " "}}));
}

}  // namespace

absl::Status ReadXml(absl::string_view xml, ElementSink sink) { return Reader(sink).Read(xml); }

absl::StatusOr<ListPage> ParseListPage(absl::string_view xml) {
  ListPage page;
  ListedObject object;
  bool is_list = false;
  std::optional<bool> is_truncated;
  bool is_encoded = false;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) -> absl::Status {
    if (path == "ListBucketResult/Contents/Key") {
      object.key = std::move(text);
    } else if (path == "ListBucketResult/Contents/Size") {
      if (!absl::SimpleAtoi(text, &object.size_bytes) || object.size_bytes < 0) {
        return absl::InvalidArgumentError("a listed object's size is no number");
      }
    } else if (path == "ListBucketResult/Contents/LastModified") {
      object.modified_at = ParseRfc3339(text).value_or(absl::InfinitePast());
    } else if (path == "ListBucketResult/Contents") {
      page.objects.push_back(std::exchange(object, {}));
    } else if (path == "ListBucketResult/CommonPrefixes/Prefix") {
      page.folders.push_back(std::move(text));
    } else if (path == "ListBucketResult/IsTruncated") {
      if (text != "true" && text != "false") {
        return absl::InvalidArgumentError("IsTruncated of a listing is neither true nor false");
      }
      is_truncated = text == "true";
    } else if (path == "ListBucketResult/NextContinuationToken") {
      page.next_token = std::move(text);
    } else if (path == "ListBucketResult/EncodingType") {
      is_encoded = text == "url";
    } else if (path == "ListBucketResult") {
      is_list = true;
    }
    return absl::OkStatus();
  }));
  if (!is_list) {
    return absl::InvalidArgumentError("not a listing of a bucket");
  }
  if (!is_truncated.has_value()) {
    return absl::InvalidArgumentError("a page of a listing does not say whether it is the last");
  }
  if (*is_truncated && page.next_token.empty()) {
    return absl::InvalidArgumentError("a page of a listing does not say where the next begins");
  }
  if (!*is_truncated) {
    page.next_token.clear();
  }
  for (ListedObject& listed : page.objects) {
    listed.key = is_encoded ? DecodeKey(listed.key) : std::move(listed.key);
  }
  for (std::string& folder : page.folders) {
    folder = is_encoded ? DecodeKey(folder) : std::move(folder);
  }
  return page;
}

absl::StatusOr<VersionPage> ParseVersionPage(absl::string_view xml) {
  constexpr absl::string_view kRoot = "ListVersionsResult";
  VersionPage page;
  ObjectVersion version;
  bool is_list = false;
  bool is_truncated = false;
  bool is_encoded = false;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) -> absl::Status {
    is_list = is_list || path == kRoot;
    if (!absl::ConsumePrefix(&path, kRoot) || !absl::ConsumePrefix(&path, "/")) {
      return absl::OkStatus();
    }
    const bool is_marker = absl::ConsumePrefix(&path, "DeleteMarker");
    if (is_marker || absl::ConsumePrefix(&path, "Version")) {
      if (path == "/Key") {
        version.key = std::move(text);
      } else if (path == "/VersionId") {
        version.id = std::move(text);
      } else if (path == "/IsLatest") {
        version.is_latest = text == "true";
      } else if (path == "/LastModified") {
        version.modified_at = ParseRfc3339(text).value_or(absl::InfinitePast());
      } else if (path == "/Size" &&
                 (!absl::SimpleAtoi(text, &version.size_bytes) || version.size_bytes < 0)) {
        return absl::InvalidArgumentError("the size of a listed version is not a number");
      } else if (path.empty()) {
        version.is_delete_marker = is_marker;
        page.versions.push_back(std::exchange(version, {}));
      }
    } else if (path == "IsTruncated") {
      is_truncated = text == "true";
    } else if (path == "NextKeyMarker") {
      page.next.key = std::move(text);
    } else if (path == "NextVersionIdMarker") {
      page.next.id = std::move(text);
    } else if (path == "EncodingType") {
      is_encoded = text == "url";
    }
    return absl::OkStatus();
  }));
  if (!is_list || (is_truncated && page.next.key.empty())) {
    return absl::InvalidArgumentError(is_list ? "a page of versions does not say what follows"
                                              : "not a listing of versions");
  }
  if (!is_truncated) {
    page.next = {};
  }
  if (is_encoded) {
    page.next.key = DecodeKey(page.next.key);
    for (ObjectVersion& listed : page.versions) {
      listed.key = DecodeKey(listed.key);
    }
  }
  absl::c_stable_sort(page.versions, [](const ObjectVersion& a, const ObjectVersion& b) {
    return std::tuple(a.key, !a.is_latest, b.modified_at) <
           std::tuple(b.key, !b.is_latest, a.modified_at);
  });
  return page;
}

absl::StatusOr<Retention> ParseRetention(absl::string_view xml) {
  Retention retention;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) {
    // S3 calls the root Retention; servers differ.
    path.remove_prefix(std::min(path.size(), path.find('/')));
    if (path == "/Mode") {
      retention.mode = std::move(text);
    } else if (path == "/RetainUntilDate") {
      retention.until = ParseRfc3339(text).value_or(absl::InfinitePast());
    }
    return absl::OkStatus();
  }));
  if (retention.mode.empty() || retention.until == absl::InfinitePast()) {
    return absl::InvalidArgumentError("not the retention of an object");
  }
  return retention;
}

absl::StatusOr<S3Error> ParseS3Error(absl::string_view xml) {
  S3Error error;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) {
    if (path == "Error/Code" || path == "ErrorResponse/Error/Code") {
      error.code = std::move(text);
    } else if (path == "Error/Message" || path == "ErrorResponse/Error/Message") {
      error.message = std::move(text);
    } else if (path == "Error/Region") {
      error.region = std::move(text);
    } else if (path == "Error/Endpoint") {
      error.endpoint = std::move(text);
    }
    return absl::OkStatus();
  }));
  if (error.code.empty()) {
    return absl::InvalidArgumentError("not an error of S3");
  }
  return error;
}

absl::StatusOr<Credentials> ParseAssumeRoleResponse(absl::string_view xml) {
  constexpr absl::string_view kBase =
      "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/";
  Credentials credentials;
  std::string expiration;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) {
    if (!absl::StartsWith(path, kBase)) {
      return absl::OkStatus();
    }
    path.remove_prefix(kBase.size());
    if (path == "AccessKeyId") {
      credentials.access_key_id = std::move(text);
    } else if (path == "SecretAccessKey") {
      credentials.secret_access_key = Secret(std::move(text));
    } else if (path == "SessionToken") {
      credentials.session_token = Secret(std::move(text));
    } else if (path == "Expiration") {
      expiration = std::move(text);
    }
    return absl::OkStatus();
  }));
  const std::optional<absl::Time> expires_at = ParseRfc3339(expiration);
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty() ||
      credentials.session_token.empty() || !expires_at.has_value()) {
    return absl::InvalidArgumentError("an answer of STS without complete credentials");
  }
  credentials.expires_at = *expires_at;
  return credentials;
}

}  // namespace csidelta::storage
