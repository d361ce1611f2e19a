# What `cmake --install build --prefix DIR` puts where. DIR may be moved afterwards, but for the
# systemd unit, which names the program.
include(CMakePackageConfigHelpers)

# README.md there is docs/README.md, the index of the pages.
install(FILES CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")

if(DDPRUN_WORKER)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
  install(DIRECTORY worker/include/ddp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS ddp ddp_base EXPORT ddprunTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_folder})
  configure_package_config_file(cmake/ddprunConfig.cmake.in ddprunConfig.cmake
    INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(ddprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake
                ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake
          DESTINATION ${package_folder})
endif()

if(DDPRUN_LAUNCHER)
  install(TARGETS ddprun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ddprun/configs)

  # As the program itself has them.
  set(completions ${CMAKE_BINARY_DIR}/completions)
  add_custom_command(OUTPUT ${completions}/ddprun ${completions}/_ddprun
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
    COMMAND ddprun completion bash > ${completions}/ddprun
    COMMAND ddprun completion zsh > ${completions}/_ddprun
    DEPENDS ddprun VERBATIM)
  add_custom_target(completions ALL DEPENDS ${completions}/ddprun ${completions}/_ddprun)
  install(FILES ${completions}/ddprun
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completions}/_ddprun DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

  # The unit names the program by its path, which is known when it is installed.
  install(CODE "set(source \"${CMAKE_CURRENT_SOURCE_DIR}/packaging\")
    set(bin \"${CMAKE_INSTALL_BINDIR}\")
    set(doc \"${CMAKE_INSTALL_DOCDIR}\")")
  install(CODE [[
    file(READ "${source}/ddprun-rendezvous.service" unit)
    string(REPLACE "/usr/bin/ddprun" "${CMAKE_INSTALL_PREFIX}/${bin}/ddprun" unit "${unit}")
    string(REPLACE "/usr/share/doc/ddprun" "${CMAKE_INSTALL_PREFIX}/${doc}" unit "${unit}")
    set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
    message(STATUS "Installing: ${folder}/ddprun-rendezvous.service")
    file(WRITE "${folder}/ddprun-rendezvous.service" "${unit}")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES
      "${CMAKE_INSTALL_PREFIX}/lib/systemd/system/ddprun-rendezvous.service")
  ]])
  install(FILES packaging/ddprun-rendezvous.logrotate DESTINATION ${CMAKE_INSTALL_DATADIR}/ddprun)
endif()
