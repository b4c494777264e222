# Build rules shared by every folder: language, warnings, and one function for each kind of target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)

add_library(cairn_options INTERFACE)
# P2: g++ contracts a*b+c by default; fused multiply-add appears only where it is written.
target_compile_options(cairn_options INTERFACE
  -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion
  -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
target_include_directories(cairn_options INTERFACE
  ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(cairn_options INTERFACE fmt::fmt Threads::Threads)

# Saves a quarter of a clang build. g++ 12 gains half as much, and its warnings about standard headers come
# back as errors from a precompiled one.
option(CAIRN_PRECOMPILED_HEADERS "Compile common headers once" OFF)

# Gives `target` the precompiled header, made once for all targets with the same flags.
function(cairn_precompile target header)
  if(NOT CAIRN_PRECOMPILED_HEADERS)
    return()
  endif()
  set(owner cairn_${header})
  if(NOT TARGET ${owner})
    file(WRITE ${CMAKE_BINARY_DIR}/cmake/${header}.cc "// Nothing: it owns the precompiled header.\n")
    add_library(${owner} STATIC ${CMAKE_BINARY_DIR}/cmake/${header}.cc)
    target_link_libraries(${owner} PRIVATE cairn_options)
    if(header STREQUAL "precompiled_tests")
      target_link_libraries(${owner} PRIVATE GTest::gtest GTest::gmock)
    endif()
    target_precompile_headers(${owner} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header}.h)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# The layers too, for sanitizer builds, which are thrown away. The kernels stay file by file: each is one
# instruction set.
option(CAIRN_UNITY_LAYERS "Compile the layers several files at a time" OFF)

# cairn_layer(NAME SOURCES a.cc b.cc [LINK layers and libraries] [PRIVATE_LINK libraries])
# One static library a layer. Header-only layers pass no SOURCES.
function(cairn_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(cairn_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(cairn_${name} PUBLIC cairn_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  cairn_precompile(cairn_${name} precompiled)
  if(NOT name STREQUAL "kernels")
    set_target_properties(cairn_${name} PROPERTIES
      UNITY_BUILD ${CAIRN_UNITY_LAYERS} UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

# GoogleTest's headers cost more than most tests: a few files a compilation take two thirds of the time. Off, a
# changed test compiles alone.
option(CAIRN_UNITY_TESTS "Compile tests several files at a time" ON)

# The big sizes, with Soak in their names, are for `make soak`.
function(cairn_discover_tests name timeout)
  gtest_discover_tests(${name} TEST_FILTER "-*Soak*" PROPERTIES TIMEOUT ${timeout} DISCOVERY_TIMEOUT 60)
  gtest_discover_tests(${name} TEST_FILTER "*Soak*" TEST_LIST ${name}_soak
    PROPERTIES TIMEOUT 7200 LABELS soak DISCOVERY_TIMEOUT 60)
endfunction()

# cairn_test(NAME SOURCES a_test.cc ... LINK libraries [TIMEOUT seconds])
# One GoogleTest program; each TEST becomes a ctest entry, labelled soak where Soak is in its name.
# CAIRN_SOURCE_DIR names the tree.
function(cairn_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)  # a bound on hangs; sanitizers are slow on a busy machine
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE CAIRN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  cairn_precompile(${name} precompiled_tests)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${CAIRN_UNITY_TESTS} UNITY_BUILD_BATCH_SIZE 5)
  set_property(GLOBAL APPEND PROPERTY CAIRN_LAYER_TESTS ${name})
  cairn_discover_tests(${name} ${ARG_TIMEOUT})
endfunction()
