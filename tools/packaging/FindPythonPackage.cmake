# What the Python package is built with: sets MILLRACE_PYTHON to whether it is there, and
#   MILLRACE_PYTHON_EXECUTABLE     the interpreter that the package is for: that of the system, unless given
#   MILLRACE_PYTHON_INCLUDE        its headers
#   MILLRACE_PYTHON_SUFFIX         the end of the names of its modules
#   MILLRACE_PYTHON_VERSION        3.11
find_program(MILLRACE_PYTHON_EXECUTABLE python3 PATHS /usr/bin NO_DEFAULT_PATH
  DOC "The interpreter that the Python package is built for")
find_program(MILLRACE_PYTHON_EXECUTABLE python3)
# Headers only. Its CMake package would look for an interpreter of its own.
find_path(PYBIND11_INCLUDE_DIR pybind11/pybind11.h)
mark_as_advanced(PYBIND11_INCLUDE_DIR)
set(missing)
if(NOT PYBIND11_INCLUDE_DIR)
  list(APPEND missing pybind11-dev)
endif()
set(words 0)
if(MILLRACE_PYTHON_EXECUTABLE)
  execute_process(
    COMMAND ${MILLRACE_PYTHON_EXECUTABLE} -c "import sysconfig as s; print(
      s.get_paths()['include'], s.get_config_var('EXT_SUFFIX'), s.get_python_version(), sep='|', end='')"
    OUTPUT_VARIABLE found ERROR_QUIET)
  string(REPLACE "|" ";" found "${found}")
  list(LENGTH found words)
endif()
if(words EQUAL 3)
  list(GET found 0 MILLRACE_PYTHON_INCLUDE)
  list(GET found 1 MILLRACE_PYTHON_SUFFIX)
  list(GET found 2 MILLRACE_PYTHON_VERSION)
endif()
if(NOT words EQUAL 3 OR NOT EXISTS ${MILLRACE_PYTHON_INCLUDE}/Python.h)
  list(APPEND missing python3-dev)
endif()
if(missing)
  list(JOIN missing " " missing)
  set(MILLRACE_PYTHON OFF)
  message(STATUS "Python package: not built; apt-get install ${missing}")
else()
  message(STATUS "Python package: for ${MILLRACE_PYTHON_EXECUTABLE}")
endif()
