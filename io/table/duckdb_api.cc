// SPDX-License-Identifier: Apache-2.0
#include "io/table/duckdb_api.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

namespace millrace::io {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "libduckdb.so";
constexpr char kFetched[] = "data/duckdb/libduckdb.so";  // by tools/get_duckdb.sh

std::vector<std::string> UsualPlaces() {
  std::vector<std::string> places = {kName, kFetched};
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return places;
  const fs::path folder = program.parent_path();
  // Of an installation, and of a build tree (build/bin).
  places.push_back((folder.parent_path() / "lib" / kName).string());
  places.push_back((folder.parent_path().parent_path() / kFetched).string());
  return places;
}

Status NotFoundError(const std::vector<std::string>& places) {
  std::string searched;
  for (const std::string& place : places) searched += (searched.empty() ? "" : ", ") + place;
  return NotFound(
      "Parquet files and SQL queries are read through DuckDB, whose library libduckdb.so was not "
      "found (" +
      searched +
      "): tools/get_duckdb.sh fetches it into data/duckdb, or name the file with the option "
      "duckdb");
}

// dlopen takes a name without slash for one of the loader's path.
std::string AsPath(const std::string& file) {
  return file.find('/') == file.npos ? "./" + file : file;
}

Result<std::shared_ptr<const DuckDbApi>> FindFunctions(void* library, const std::string& file) {
  auto api = std::make_shared<DuckDbApi>();
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    void* const found = dlsym(library, name);
    if (!found && missing.empty()) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define MILLRACE_FIND(name, type, parameters) find("duckdb_" #name, api->name);
  MILLRACE_DUCKDB_FUNCTIONS(MILLRACE_FIND)
#undef MILLRACE_FIND
  if (missing.empty()) return std::shared_ptr<const DuckDbApi>(std::move(api));
  const std::string version = api->library_version ? api->library_version() : "another library";
  return Invalid(file + ": expected a DuckDB with the function " + missing +
                 " (1.5 has it), found " + version + ": tools/get_duckdb.sh fetches a recent one");
}

}  // namespace

Result<std::shared_ptr<const DuckDbApi>> LoadDuckDb(const std::string& file) {
  const std::vector<std::string> places =
      file.empty() ? UsualPlaces() : std::vector<std::string>{AsPath(file)};
  for (const std::string& place : places) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return FindFunctions(library, place);
    }
    const char* problem = dlerror();
    std::error_code ignored;
    if (!file.empty() || fs::exists(place, ignored)) {
      return Invalid("DuckDB: " + std::string(problem ? problem : place) +
                     " (tools/get_duckdb.sh fetches libduckdb.so)");
    }
  }
  return NotFoundError(places);
}

}  // namespace millrace::io
