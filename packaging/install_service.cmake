# SPDX-License-Identifier: Apache-2.0
# Run by `cmake --install`: the unit, with the paths of this prefix in it, and the configuration.
# Set before: elevd_bindir, elevd_sysconfdir (relative to the prefix, or absolute), elevd_sources,
# elevd_made (a folder of the build).

# A package's prefix is /usr, and its configuration is in /etc.
cmake_path(ABSOLUTE_PATH elevd_bindir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND elevd_sysconfdir STREQUAL "etc")
  set(elevd_sysconfdir /etc)
endif()
cmake_path(ABSOLUTE_PATH elevd_sysconfdir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)

file(READ "${elevd_sources}/elevd.service" unit)
string(REPLACE "/usr/bin/elevd " "${elevd_bindir}/elevd " unit "${unit}")
string(REPLACE "/etc/elevd/" "${elevd_sysconfdir}/elevd/" unit "${unit}")
file(WRITE "${elevd_made}/elevd.service" "${unit}")
file(INSTALL "${elevd_made}/elevd.service"
  DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")

# A configuration that is there is somebody's work: it is never overwritten.
if(EXISTS "$ENV{DESTDIR}${elevd_sysconfdir}/elevd/elevd.toml")
  message(STATUS "Kept: $ENV{DESTDIR}${elevd_sysconfdir}/elevd/elevd.toml")
else()
  file(INSTALL "${elevd_sources}/elevd.toml" DESTINATION "${elevd_sysconfdir}/elevd")
endif()
