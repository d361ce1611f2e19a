# Debian packages, by CPack: scripts/package.sh builds them, docs/install.md tells of them, and
# packaging/README.md of what lintian says. A package has the files of the component of its name.
set(DDPRUN_MAINTAINER "ddprun maintainers <maintainers@ddprun.invalid>" CACHE STRING
    "Whom the Debian packages name as their maintainer; scripts/package.sh sets it from DEBFULLNAME and DEBEMAIL")
if(NOT DDPRUN_LAUNCHER OR NOT DDPRUN_WORKER OR DDPRUN_TORCH_DIR)
  return()  # all four, or none
endif()
execute_process(COMMAND dpkg-query --show --showformat \${source:Upstream-Version} libtorch-dev
                OUTPUT_VARIABLE torch_version ERROR_QUIET RESULT_VARIABLE no_torch)
if(no_torch)
  return()  # no Debian, or another libtorch than Debian's
endif()

# 0.1.0-1~deb12: what is built on Debian 13 is newer.
file(STRINGS /etc/os-release release REGEX "^VERSION_ID=")
string(REGEX REPLACE "[^0-9.]" "" release "${release}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
if(release)
  string(APPEND CPACK_DEBIAN_PACKAGE_RELEASE "~deb${release}")
endif()
set(DDPRUN_DEBIAN_VERSION ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

# ---- what every package has beside its component's files ----
set(CPACK_COMPONENTS_ALL ddprun ddprun-examples libddp-dev python3-ddprun)
set(package_files ${CMAKE_BINARY_DIR}/package-files)
string(TIMESTAMP DDPRUN_CHANGELOG_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(packaging/debian/changelog.in ${package_files}/changelog.Debian @ONLY)
add_custom_target(package-files
  COMMAND gzip -9nc ${CMAKE_CURRENT_SOURCE_DIR}/CHANGELOG.md > ${package_files}/changelog.gz
  COMMAND gzip -9nc ${package_files}/changelog.Debian > ${package_files}/changelog.Debian.gz
  VERBATIM)
foreach(package ${CPACK_COMPONENTS_ALL})
  install(FILES ${package_files}/changelog.gz ${package_files}/changelog.Debian.gz
                packaging/debian/copyright
          DESTINATION share/doc/${package} COMPONENT ${package} EXCLUDE_FROM_ALL)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/packaging/debian/${package}.lintian-overrides)
    install(FILES packaging/debian/${package}.lintian-overrides
            DESTINATION share/lintian/overrides RENAME ${package}
            COMPONENT ${package} EXCLUDE_FROM_ALL)
  endif()
endforeach()
# What is linked into ddprun: scripts/linked_libraries.py writes it. Debian has the common licences already.
install(DIRECTORY ${package_files}/linked DESTINATION share/doc/ddprun
        COMPONENT ddprun EXCLUDE_FROM_ALL PATTERN common-licenses EXCLUDE)

# ---- the packages ----
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_CONTACT "${DDPRUN_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)

# Its maintainer scripts are those in packaging/debian/COMPONENT.
function(ddprun_package component section summary description)
  string(TOUPPER ${component} name)  # as CPack wants it
  file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/packaging/debian/${component}/*)
  set(CPACK_DEBIAN_${name}_PACKAGE_CONTROL_EXTRA "${scripts}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_SOURCE ddprun PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${name}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
endfunction()

ddprun_package(ddprun utils "launcher for distributed data-parallel training"
"ddprun starts a DistributedDataParallel training job on one node or many, and
keeps it running. When a worker dies, ddprun tells every node at once and forms
the group again, and training continues from the newest state of any node. It
has torchrun's flags, environment and log layout.
.
The program is one file and needs only the C library. It contains the Python
module for the scripts that it starts.")
set(CPACK_DEBIAN_DDPRUN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DDPRUN_PACKAGE_SUGGESTS "ddprun-examples, python3-ddprun, libddp-dev")

ddprun_package(ddprun-examples science "two distributed trainings for ddprun, with their data"
"A convolutional net that learns MNIST and a small transformer, both in C++ with
libtorch, with a subset of MNIST and a text. The job files in
/usr/share/ddprun/configs train them:
.
 ddprun -c /usr/share/ddprun/configs/mnist_local.yaml")
set(CPACK_DEBIAN_DDPRUN-EXAMPLES_PACKAGE_SHLIBDEPS ON)
# With the reference BLAS a step takes eight times as long.
set(CPACK_DEBIAN_DDPRUN-EXAMPLES_PACKAGE_DEPENDS
    "ddprun (= ${DDPRUN_DEBIAN_VERSION}), libopenblas0-pthread")

ddprun_package(libddp-dev libdevel "DistributedDataParallel for libtorch in C++ (development files)"
"A static library with what PyTorch offers only in Python: a
DistributedDataParallel for any torch::nn module, and DistributedSampler. Also
checkpoints on disk and in memory: after a restart every rank gets the newest
one from a rank that has it.")
# No two versions of libtorch have the same ABI.
set(CPACK_DEBIAN_LIBDDP-DEV_PACKAGE_DEPENDS
    "libtorch-dev (>= ${torch_version}), libtorch-dev (<< ${torch_version}.0~), libgloo-dev, libssl-dev, libxxhash-dev")
set(CPACK_DEBIAN_LIBDDP-DEV_PACKAGE_SUGGESTS "ddprun")

ddprun_package(python3-ddprun python "Python module of ddprun, for processes that it did not start"
"Steps, phases, checkpoints and an exact sampler for trainings under ddprun.
Scripts that ddprun starts have this module without the package. Install it for
scripts that a wrapper starts, or that also run without ddprun.")
set(CPACK_DEBIAN_PYTHON3-DDPRUN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON3-DDPRUN_PACKAGE_DEPENDS "python3:any")
set(CPACK_DEBIAN_PYTHON3-DDPRUN_PACKAGE_SUGGESTS "python3-torch")

include(CPack)
