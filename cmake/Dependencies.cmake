# Third-party code, all from the distribution, each with the reason it is here.
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)

find_package(Threads REQUIRED)
find_package(absl REQUIRED)           # Status, StatusOr, strings, time: our error vocabulary
find_package(Protobuf REQUIRED)       # Velero's and CSI's messages
find_package(OpenSSL REQUIRED)        # TLS to the API server, SHA-256
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB REQUIRED)           # gzip of our server's answers, gRPC's message compression
find_package(nlohmann_json REQUIRED)  # JSON that keeps unknown fields and 64-bit integers
find_package(yaml-cpp REQUIRED)       # volume policies, kubeconfig
find_package(Boost 1.81 REQUIRED)     # Beast and Asio (headers): HTTP that links statically
if(CSIDELTA_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# The distribution's absl:: targets name the shared libraries; a static executable, and one that holds only one
# copy of Abseil beside gRPC's archives, needs the archives that lie next to them.
get_property(imported_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${imported_targets})
  get_target_property(location ${target} IMPORTED_LOCATION_NONE)
  if(target MATCHES "^absl::" AND location MATCHES "\\.so[.0-9]*$")
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE "${archive}")
  endif()
endforeach()

find_library(CARES_LIBRARY NAMES libcares.a REQUIRED)  # names without glibc's resolver
add_library(csidelta_cares INTERFACE)
target_link_libraries(csidelta_cares INTERFACE "${CARES_LIBRARY}")

find_library(YAML_CPP_LIBRARY NAMES libyaml-cpp.a REQUIRED)
add_library(csidelta_yaml INTERFACE)
target_link_libraries(csidelta_yaml INTERFACE "${YAML_CPP_LIBRARY}")

find_library(EXPAT_LIBRARY NAMES libexpat.a REQUIRED)  # the XML of S3's answers
add_library(csidelta_expat INTERFACE)
target_link_libraries(csidelta_expat INTERFACE "${EXPAT_LIBRARY}")

find_library(ZSTD_LIBRARY NAMES libzstd.a REQUIRED)  # blobs and metadata in restic's format
add_library(csidelta_zstd INTERFACE)
target_link_libraries(csidelta_zstd INTERFACE "${ZSTD_LIBRARY}")

find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# gRPC is go-plugin's transport and CSI's. The distribution's CMake files name only its shared libraries; our
# programs are static executables, so the archives are named here. "unsecure": the plugin's transport is plaintext
# over a unix socket, and the archive without TLS is half the size. Who asks for changed blocks speaks TLS to a
# cluster's service, and plaintext to a CSI driver: csidelta_grpc_tls. No program links both.
file(GLOB ABSL_ARCHIVES "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a")

# csidelta_grpc_archives(target names... DEPS ...): an interface library of gRPC's archives and what they need.
function(csidelta_grpc_archives target)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  set(archives)
  foreach(name ${ARG_UNPARSED_ARGUMENTS} gpr address_sorting upb re2)
    find_library(ARCHIVE_${name} NAMES lib${name}.a REQUIRED)
    list(APPEND archives "${ARCHIVE_${name}}")
  endforeach()
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE
    -Wl,--start-group ${archives} ${ABSL_ARCHIVES} -Wl,--end-group
    protobuf::libprotobuf ${ARG_DEPS} "${CARES_LIBRARY}" ZLIB::ZLIB Threads::Threads)
endfunction()
csidelta_grpc_archives(csidelta_grpc grpc++_unsecure grpc_unsecure)
csidelta_grpc_archives(csidelta_grpc_tls grpc++ grpc DEPS OpenSSL::SSL OpenSSL::Crypto)
