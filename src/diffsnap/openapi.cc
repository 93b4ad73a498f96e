#include "diffsnap/rest_server.h"

namespace csidelta::diffsnap {
namespace {

constexpr char kDocument[] = R"json({
  "openapi": "3.0.3",
  "info": {
    "title": "DifferentialSnapshot",
    "version": "v1alpha1",
    "description": "Which blocks of a volume differ between two volume snapshots, in pages."
  },
  "paths": {
    "/{namespace}/{name}": {
      "get": {
        "operationId": "getDifferentialSnapshotPage",
        "summary": "One page of the changed blocks that a DifferentialSnapshot stands for",
        "security": [{"bearer": []}],
        "parameters": [
          {"name": "namespace", "in": "path", "required": true, "schema": {"type": "string"}},
          {"name": "name", "in": "path", "required": true, "schema": {"type": "string"}},
          {"name": "startOffset", "in": "query",
           "description": "nextOffset of the page before, or a number of bytes; absent: where the object begins",
           "schema": {"type": "string", "maxLength": 4096}},
          {"name": "maxEntries", "in": "query",
           "description": "blocks in the page at most; it may hold fewer, and none with a nextOffset",
           "schema": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 65536, "default": 4096}}
        ],
        "responses": {
          "200": {
            "description": "A page; the last one has no nextOffset",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}
          },
          "default": {
            "description": "Why there is no page; with Retry-After: ask again",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
          }
        }
      }
    }
  },
  "components": {
    "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    "schemas": {
      "Page": {
        "type": "object",
        "required": ["changeBlockList", "volumeSize"],
        "properties": {
          "changeBlockList": {
            "description": "Ascending and disjoint, also across pages; neighbours may touch",
            "type": "array", "maxItems": 65536, "items": {"$ref": "#/components/schemas/ChangedBlock"}
          },
          "nextOffset": {"type": "string", "maxLength": 4096,
            "description": "Opaque; absent, null or empty: this was the last page"},
          "volumeSize": {"type": "integer", "format": "int64", "description": "In bytes, the same in all pages"},
          "timeout": {"type": "integer", "format": "int64",
            "description": "Seconds since 1970 until which the storage keeps the result; 0: no limit"}
        }
      },
      "ChangedBlock": {
        "type": "object",
        "required": ["offset", "size"],
        "properties": {
          "offset": {"type": "integer", "format": "int64", "minimum": 0},
          "size": {"type": "integer", "format": "int64", "minimum": 1},
          "context": {"type": "string", "format": "byte", "description": "The storage vendor's own"},
          "zeroOut": {"type": "boolean", "description": "The target reads as zeros here; false says nothing"}
        }
      },
      "Error": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
          "code": {"type": "string", "enum": [
            "InvalidArgument", "InvalidOffset", "Unauthenticated", "PermissionDenied", "NotFound",
            "MethodNotAllowed", "NotAcceptable", "FullBackupRequired", "BaseSnapshotGone",
            "TargetSnapshotGone", "ResultExpired", "UriTooLong", "OffsetOutOfRange", "Throttled", "Internal",
            "Unsupported", "DriverContractViolation", "Unavailable", "NotSynced", "DeadlineExceeded"]},
          "message": {"type": "string"}
        }
      }
    }
  }
}
)json";

}  // namespace

absl::string_view OpenApiDocument() { return kDocument; }

}  // namespace csidelta::diffsnap
