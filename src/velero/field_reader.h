#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/json.h"

namespace csidelta::velero {

// Reads typed fields of one object. Null is absent, and what is absent is empty; of the fields that
// have the wrong type the first is remembered, by its name. Borrows the object.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(object) {}

  std::string Text(JsonPath path);
  std::optional<bool> Flag(JsonPath path);
  // 0 when absent; a negative one is wrong.
  int64_t Size(JsonPath path);
  std::vector<std::string> Texts(JsonPath path);
  std::map<std::string, std::string> Map(JsonPath path);
  // RFC 3339.
  std::optional<absl::Time> Time(JsonPath path);

  // Absent, empty and zero all mean `fallback`: Go writes a duration that was never set as "0s".
  absl::Duration Timeout(JsonPath path, absl::Duration fallback);
  absl::Duration Timeout(absl::string_view text, absl::string_view field, absl::Duration fallback);

  void Require(const std::string& value, absl::string_view field);

  // INVALID_ARGUMENT, naming the field, for the first that is wrong.
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(JsonPath path) const;
  void Fail(JsonPath path, absl::string_view problem);
  void Remember(const absl::Status& status);

  const Json& object_;
  absl::Status status_;
};

}  // namespace csidelta::velero
