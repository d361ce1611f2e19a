# What `cmake --install build --prefix DIR` puts where, and which Debian package has it (its component).
# DIR may be moved afterwards, but for the systemd unit and the job files, which name programs and data.
include(CMakePackageConfigHelpers)

# Text that names where things are installed, which is known when they are. The rest are pairs of a
# text and what replaces it; @PREFIX@ stands for the prefix.
function(ddprun_install_text component source destination)
  install(CODE "set(source [[${source}]])
    set(destination [[${destination}]])
    set(replacements [[${ARGN}]])" COMPONENT ${component})
  install(CODE [[
    file(READ "${source}" text)
    while(replacements)
      list(POP_FRONT replacements old new)
      string(REPLACE "@PREFIX@" "${CMAKE_INSTALL_PREFIX}" new "${new}")
      string(REPLACE "${old}" "${new}" text "${text}")
    endwhile()
    cmake_path(GET source FILENAME name)
    set(file "${CMAKE_INSTALL_PREFIX}/${destination}/${name}")
    message(STATUS "Installing: $ENV{DESTDIR}${file}")
    file(WRITE "$ENV{DESTDIR}${file}" "${text}")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${file}")
  ]] COMPONENT ${component})
endfunction()

# In no package: there Debian's changelog and copyright say the same.
install(FILES CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT not-packaged)
# README.md there is docs/README.md, the index of the pages.
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT ddprun
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
# Links to files that only the source has become their paths there.
install(CODE "set(pages [[${CMAKE_INSTALL_DOCDIR}]])" COMPONENT ddprun)
install(CODE [==[
  file(GLOB_RECURSE pages "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${pages}/*.md")
  foreach(page IN LISTS pages)
    file(READ "${page}" text)
    string(REGEX REPLACE "\\[[^]]*\\]\\((\\.\\./)+((packaging|worker)/[^)]*)\\)" "`\\2`" text "${text}")
    file(WRITE "${page}" "${text}")
  endforeach()
]==] COMPONENT ddprun)

set(example_folder ${CMAKE_INSTALL_LIBEXECDIR}/ddprun)
set(data_folder ${CMAKE_INSTALL_DATADIR}/ddprun)

if(DDPRUN_WORKER)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
  install(DIRECTORY worker/include/ddp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libddp-dev)
  install(TARGETS ddp ddp_base EXPORT ddprunTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libddp-dev)
  install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_folder}
          COMPONENT libddp-dev)
  configure_package_config_file(cmake/ddprunConfig.cmake.in ddprunConfig.cmake
    INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(ddprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake
                ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake
          DESTINATION ${package_folder} COMPONENT libddp-dev)

  install(TARGETS mnist_ddp gpt_ddp RUNTIME DESTINATION ${example_folder}
          COMPONENT ddprun-examples)
  install(DIRECTORY tests/data/mnist tests/data/text DESTINATION ${data_folder}/data
          COMPONENT ddprun-examples)
endif()

if(DDPRUN_LAUNCHER)
  install(TARGETS ddprun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ddprun)

  # As the program itself has them.
  set(completions ${CMAKE_BINARY_DIR}/completions)
  add_custom_command(OUTPUT ${completions}/ddprun ${completions}/_ddprun
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
    COMMAND ddprun completion bash > ${completions}/ddprun
    COMMAND ddprun completion zsh > ${completions}/_ddprun
    DEPENDS ddprun VERBATIM)
  add_custom_target(completions ALL DEPENDS ${completions}/ddprun ${completions}/_ddprun)
  install(FILES ${completions}/ddprun
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ddprun)
  # Where zsh looks below /usr/local, and where Debian's looks below /usr.
  install(FILES ${completions}/_ddprun
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT not-packaged)
  install(FILES ${completions}/_ddprun
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT ddprun)

  # So are the Python module and the manual pages. Their date is that of the configuration, or of
  # SOURCE_DATE_EPOCH.
  set(python_folder ${CMAKE_BINARY_DIR}/python-module)
  add_custom_command(OUTPUT ${python_folder}/ddprun.py
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${python_folder}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${python_folder}
    COMMAND ddprun python-module ${python_folder} > ${CMAKE_BINARY_DIR}/python-module.log
    DEPENDS ddprun VERBATIM)
  add_custom_target(python-module ALL DEPENDS ${python_folder}/ddprun.py)
  install(DIRECTORY ${python_folder}/ DESTINATION lib/python3/dist-packages
          COMPONENT python3-ddprun)

  string(TIMESTAMP date "%Y-%m-%d" UTC)
  set(manuals ${CMAKE_BINARY_DIR}/manuals)
  add_custom_command(OUTPUT ${manuals}/ddprun.1.gz
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${manuals}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${manuals}
    COMMAND make_manuals ${manuals} ${PROJECT_VERSION} ${date}
    COMMAND gzip -9nr ${manuals}
    DEPENDS make_manuals VERBATIM)
  add_custom_target(manuals ALL DEPENDS ${manuals}/ddprun.1.gz)
  foreach(section 1 5 7)
    install(DIRECTORY ${manuals}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
            COMPONENT ddprun FILES_MATCHING PATTERN "*.${section}.gz")
  endforeach()

  install(FILES configs/ddprun.schema.json DESTINATION ${data_folder}/configs COMPONENT ddprun)
  file(GLOB job_files CONFIGURE_DEPENDS configs/*.yaml)
  foreach(file ${job_files})
    ddprun_install_text(ddprun ${file} ${data_folder}/configs
      build/bin/ddprun ddprun
      build/bin/ @PREFIX@/${example_folder}/
      tests/data/ @PREFIX@/${data_folder}/data/
      "-c configs/" "-c @PREFIX@/${data_folder}/configs/"
      "From the top of the repository" "From any folder")
  endforeach()

  ddprun_install_text(ddprun ${CMAKE_CURRENT_SOURCE_DIR}/packaging/ddprun-rendezvous.service
    lib/systemd/system
    /usr/bin/ddprun @PREFIX@/${CMAKE_INSTALL_BINDIR}/ddprun
    /usr/share/doc/ddprun @PREFIX@/${CMAKE_INSTALL_DOCDIR})
  install(FILES packaging/ddprun-rendezvous.logrotate DESTINATION ${data_folder} COMPONENT ddprun)
  ddprun_install_text(ddprun ${CMAKE_CURRENT_SOURCE_DIR}/packaging/ha/ddprun-rendezvous.conf
    ${data_folder}/ha
    /usr/bin/ddprun @PREFIX@/${CMAKE_INSTALL_BINDIR}/ddprun)
  install(FILES packaging/ha/etcd.conf packaging/ha/etcd.default
          DESTINATION ${data_folder}/ha COMPONENT ddprun)
  install(FILES packaging/prometheus/alerts.yml DESTINATION ${data_folder}/prometheus COMPONENT ddprun)
  install(FILES packaging/grafana/ddprun.json DESTINATION ${data_folder}/grafana COMPONENT ddprun)
endif()
include(DdprunPackages)
