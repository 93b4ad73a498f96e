#include "storage/s3_xml.h"

#include <expat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "absl/algorithm/container.h"
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

  static void XMLCALL OnStart(void* self, const XML_Char* name, const XML_Char** attribute) {
    Reader& reader = Self(self);
    if (std::ssize(reader.starts_) >= kXmlDepthMax) {
      return reader.Stop(absl::InvalidArgumentError("XML nested too deep"));
    }
    reader.starts_.push_back(reader.path_.size());
    absl::StrAppend(&reader.path_, reader.path_.empty() ? "" : "/", name);
    reader.text_.clear();
    for (absl::Status status; *attribute != nullptr && status.ok(); attribute += 2) {
      status = reader.sink_(absl::StrCat(reader.path_, "/@", attribute[0]), attribute[1]);
      if (!status.ok()) {
        reader.Stop(status);
      }
    }
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

// Takes back what encoding-type=url did to a key.
void Decode(absl::string_view encoding, std::string& key) {
  if (encoding == "url") {
    key = net::PercentDecode(absl::StrReplaceAll(key, {{"+", " "}}));
  }
}

absl::Status ReadSize(absl::string_view text, int64_t& size_bytes) {
  return absl::SimpleAtoi(text, &size_bytes) && size_bytes >= 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError("the size of a listed object is not a number");
}

}  // namespace

absl::Status ReadXml(absl::string_view xml, ElementSink sink) { return Reader(sink).Read(xml); }

absl::Status ReadXmlBelow(absl::string_view root, absl::string_view what, absl::string_view xml,
                          ElementSink sink) {
  bool is_root = false;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, std::string text) {
    is_root = is_root || path == root;
    return absl::ConsumePrefix(&path, root) && absl::ConsumePrefix(&path, "/")
               ? sink(path, std::move(text))
               : absl::OkStatus();
  }));
  return is_root ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat("not ", what));
}

void PickText(absl::string_view path, const std::string& text,
              std::initializer_list<std::pair<absl::string_view, std::string*>> places) {
  for (const auto& [known, place] : places) {
    if (path == known) {
      *place = text;
    }
  }
}

absl::StatusOr<ListPage> ParseListPage(absl::string_view xml) {
  ListPage page;
  ObjectInfo object;
  std::string truncated;
  std::string encoding;
  std::string next_marker;
  const auto take = [&](absl::string_view path, std::string text) -> absl::Status {
    PickText(path, text,
             {{"Contents/Key", &object.key},
              {"IsTruncated", &truncated},
              {"NextContinuationToken", &page.next_token},
              {"NextMarker", &next_marker},
              {"EncodingType", &encoding}});
    page.is_by_marker = page.is_by_marker || path == "Marker" || path == "NextMarker";
    if (path == "Contents/StorageClass") {
      object.is_archived = absl::c_linear_search(kArchiveClasses, text);
    } else if (path == "Contents/Size") {
      RETURN_IF_ERROR(ReadSize(text, object.size_bytes));
    } else if (path == "Contents/LastModified") {
      object.modified_at = ParseRfc3339(text).value_or(absl::InfinitePast());
    } else if (path == "Contents") {
      page.objects.push_back(std::exchange(object, {}));
    } else if (path == "CommonPrefixes/Prefix") {
      page.folders.push_back(std::move(text));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadXmlBelow("ListBucketResult", "a listing of a bucket", xml, take));
  if (truncated != "true" && truncated != "false") {
    return absl::InvalidArgumentError(
        truncated.empty() ? "a page of a listing does not say whether it is the last"
                          : "IsTruncated of a listing is neither true nor false");
  }
  Decode(encoding, next_marker);
  std::string last;
  for (ObjectInfo& listed : page.objects) {
    Decode(encoding, listed.key);
    last = std::max(last, listed.key);
  }
  for (std::string& folder : page.folders) {
    Decode(encoding, folder);
    last = std::max(last, folder);
  }
  page.is_by_marker = page.is_by_marker && page.next_token.empty() && truncated == "true";
  if (page.is_by_marker) {
    page.next_token = next_marker.empty() ? last : next_marker;
  }
  if (truncated == "true" && page.next_token.empty()) {
    return absl::InvalidArgumentError("a page of a listing does not say where the next begins");
  }
  if (truncated == "false") {
    page.next_token.clear();
  }
  return page;
}

absl::StatusOr<VersionPage> ParseVersionPage(absl::string_view xml) {
  VersionPage page;
  ObjectVersion version;
  std::string truncated;
  std::string encoding;
  const auto take = [&](absl::string_view path, const std::string& text) -> absl::Status {
    PickText(path, text,
             {{"IsTruncated", &truncated},
              {"NextKeyMarker", &page.next.key},
              {"NextVersionIdMarker", &page.next.id},
              {"EncodingType", &encoding}});
    const bool is_marker = absl::ConsumePrefix(&path, "DeleteMarker");
    if (!is_marker && !absl::ConsumePrefix(&path, "Version")) {
      return absl::OkStatus();
    }
    PickText(path, text, {{"/Key", &version.key}, {"/VersionId", &version.id}});
    if (path == "/IsLatest") {
      version.is_latest = text == "true";
    } else if (path == "/LastModified") {
      version.modified_at = ParseRfc3339(text).value_or(absl::InfinitePast());
    } else if (path == "/Size") {
      RETURN_IF_ERROR(ReadSize(text, version.size_bytes));
    } else if (path.empty()) {
      version.is_delete_marker = is_marker;
      page.versions.push_back(std::exchange(version, {}));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadXmlBelow("ListVersionsResult", "a listing of versions", xml, take));
  if (truncated == "true" && page.next.key.empty()) {
    return absl::InvalidArgumentError("a page of versions does not say what follows");
  }
  if (truncated != "true") {
    page.next = {};
  }
  Decode(encoding, page.next.key);
  for (ObjectVersion& listed : page.versions) {
    Decode(encoding, listed.key);
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
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, const std::string& text) {
    absl::ConsumePrefix(&path, "ErrorResponse/");
    PickText(path, text,
             {{"Error/Code", &error.code},
              {"Error/Message", &error.message},
              {"Error/Region", &error.region},
              {"Error/Endpoint", &error.endpoint}});
    return absl::OkStatus();
  }));
  if (error.code.empty()) {
    return absl::InvalidArgumentError("not an error of S3");
  }
  return error;
}

absl::StatusOr<std::vector<DeletedObject>> ParseDeleteResult(absl::string_view xml) {
  std::vector<DeletedObject> objects;
  DeletedObject object;
  const auto take = [&](absl::string_view path, const std::string& text) {
    object.is_deleted = path == "Deleted";
    PickText(path, text,
             {{"Deleted/Key", &object.key},
              {"Error/Key", &object.key},
              {"Error/Code", &object.error.code},
              {"Error/Message", &object.error.message}});
    if (object.is_deleted || path == "Error") {
      objects.push_back(std::exchange(object, {}));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadXmlBelow("DeleteResult", "an answer to a deletion of many", xml, take));
  return objects;
}

absl::StatusOr<Credentials> ParseAssumeRoleResponse(absl::string_view xml) {
  Credentials credentials;
  std::string secret;
  std::string token;
  std::string expiration;
  RETURN_IF_ERROR(ReadXml(xml, [&](absl::string_view path, const std::string& text) {
    absl::ConsumePrefix(&path,
                        "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/");
    PickText(path, text,
             {{"Credentials/AccessKeyId", &credentials.access_key_id},
              {"Credentials/SecretAccessKey", &secret},
              {"Credentials/SessionToken", &token},
              {"Credentials/Expiration", &expiration}});
    return absl::OkStatus();
  }));
  credentials.secret_access_key = Secret(std::move(secret));
  credentials.session_token = Secret(std::move(token));
  const std::optional<absl::Time> expires_at = ParseRfc3339(expiration);
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty() ||
      credentials.session_token.empty() || !expires_at.has_value()) {
    return absl::InvalidArgumentError("an answer of STS without complete credentials");
  }
  credentials.expires_at = *expires_at;
  return credentials;
}

}  // namespace csidelta::storage
