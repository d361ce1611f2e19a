# abseil, protobuf and gRPC, linked statically when DDPRUN_STATIC is on.
#
#   ddprun_absl             abseil
#   ddprun_grpc             gRPC, protobuf, and abseil with them
#   ddprun_re2              the regular expressions that gRPC brings along
#   ddprun_static_runtime   for executables: libstdc++ and libgcc from their archives
#
# With DDPRUN_STATIC, an executable of ours needs only libc and libm at run time. Debian ships every
# archive, but its CMake packages name the shared libraries, so the archives are named here, with
# what each of them needs, for CMake to put them on a link line once and in the right order.
include_guard(GLOBAL)

add_library(ddprun_absl INTERFACE)
add_library(ddprun_grpc INTERFACE)
add_library(ddprun_re2 INTERFACE)
add_library(ddprun_static_runtime INTERFACE)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # whoever links these targets needs them too
find_package(Threads REQUIRED)
target_link_libraries(ddprun_absl INTERFACE Threads::Threads)
target_link_libraries(ddprun_grpc INTERFACE ddprun_absl)

find_program(DDPRUN_PROTOC protoc REQUIRED)
find_program(DDPRUN_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# Makes the target ddprun_archive_NAME of libNAME.a, which Debian's PACKAGE ships; the rest are the
# libraries that it needs.
function(ddprun_add_archive name package)
  find_library(DDPRUN_ARCHIVE_${name} lib${name}.a)
  mark_as_advanced(DDPRUN_ARCHIVE_${name})
  if(NOT DDPRUN_ARCHIVE_${name})
    message(FATAL_ERROR "lib${name}.a not found: install ${package}, or configure with "
                        "-DDDPRUN_STATIC=OFF")
  endif()
  add_library(ddprun_archive_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(ddprun_archive_${name} PROPERTIES
    IMPORTED_LOCATION ${DDPRUN_ARCHIVE_${name}} INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

if(DDPRUN_STATIC)
  # abseil is many archives that need each other.
  find_library(DDPRUN_ARCHIVE_absl_strings libabsl_strings.a)
  mark_as_advanced(DDPRUN_ARCHIVE_absl_strings)
  if(NOT DDPRUN_ARCHIVE_absl_strings)
    message(FATAL_ERROR "libabsl_strings.a not found: install libabsl-dev, or configure with "
                        "-DDDPRUN_STATIC=OFF")
  endif()
  get_filename_component(absl_folder ${DDPRUN_ARCHIVE_absl_strings} DIRECTORY)
  file(GLOB absl_archives ${absl_folder}/libabsl_*.a)
  # What is for programs' flags and abseil's own tests.
  list(FILTER absl_archives EXCLUDE REGEX "libabsl_(flags|scoped_set_env|.*_test_util)")
  list(JOIN absl_archives "," absl_archives)
  target_link_libraries(ddprun_absl INTERFACE "$<LINK_GROUP:RESCAN,${absl_archives}>")

  ddprun_add_archive(z zlib1g-dev)
  ddprun_add_archive(zstd libzstd-dev)
  # From Debian 13 on it compresses certificates.
  ddprun_add_archive(crypto libssl-dev ddprun_archive_z ddprun_archive_zstd)
  ddprun_add_archive(ssl libssl-dev ddprun_archive_crypto)
  ddprun_add_archive(cares libc-ares-dev)
  ddprun_add_archive(re2 libre2-dev)
  target_link_libraries(ddprun_re2 INTERFACE ddprun_archive_re2)
  ddprun_add_archive(upb libgrpc-dev)
  ddprun_add_archive(address_sorting libgrpc-dev)
  ddprun_add_archive(gpr libgrpc-dev ddprun_absl)
  ddprun_add_archive(grpc libgrpc-dev
    ddprun_archive_gpr ddprun_archive_upb ddprun_archive_address_sorting ddprun_archive_re2
    ddprun_archive_cares ddprun_archive_ssl ddprun_archive_crypto ddprun_archive_z ddprun_absl)
  ddprun_add_archive(protobuf libprotobuf-dev ddprun_archive_z)
  ddprun_add_archive(grpc++ libgrpc++-dev
    ddprun_archive_grpc ddprun_archive_gpr ddprun_archive_protobuf ddprun_absl)
  target_link_libraries(ddprun_grpc INTERFACE ddprun_archive_grpc++)

  # Not position independent: 40,000 relocations at each start, and their pages copied for the
  # guardian, would cost more than the rest of the start.
  # Without what nothing refers to: fewer pages are read at each start.
  target_link_options(ddprun_static_runtime INTERFACE
    -static-libstdc++ -static-libgcc -no-pie LINKER:--gc-sections)
else()
  find_package(absl REQUIRED CONFIG)
  target_link_libraries(ddprun_absl INTERFACE
    absl::base absl::core_headers absl::flat_hash_map absl::flat_hash_set absl::hash
    absl::random_random absl::span absl::status absl::statusor absl::str_format absl::strings
    absl::synchronization absl::time)
  find_library(DDPRUN_RE2 re2 REQUIRED)
  target_link_libraries(ddprun_re2 INTERFACE ${DDPRUN_RE2})
  find_library(DDPRUN_GRPCPP grpc++ REQUIRED)
  find_library(DDPRUN_GRPC grpc REQUIRED)
  find_library(DDPRUN_GPR gpr REQUIRED)
  find_library(DDPRUN_PROTOBUF protobuf REQUIRED)
  target_link_libraries(ddprun_grpc INTERFACE
    ${DDPRUN_GRPCPP} ${DDPRUN_GRPC} ${DDPRUN_GPR} ${DDPRUN_PROTOBUF})
endif()
