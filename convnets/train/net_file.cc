// SPDX-License-Identifier: Apache-2.0
#include "convnets/train/net_file.h"

#include <algorithm>
#include <array>

#include "io/state/state_file.h"
#include "profiler/trace.h"

namespace millrace::convnets {
namespace {

constexpr size_t kChunk = 64;

// What a state file is, in words.
std::string KindText(const std::string& kind) {
  if (kind == "net") return "the model of a net";
  if (kind == "net_checkpoint") return "a checkpoint of a net";
  if (kind == "model") return "a model of millrace-lr";
  return "a state file of kind " + kind;
}

Status CheckSame(const std::string& path, const io::StateFields& expected,
                 const io::StateFields& found) {
  for (const auto& [name, value] : expected.all()) {
    const Result<std::string> theirs = found.Text(name);
    if (!theirs.ok()) return Corrupt(path + ": " + theirs.status().message());
    if (*theirs == value) continue;
    if (name == "kind") {
      return Invalid(path + ": expected " + KindText(value) + ", found " + KindText(*theirs));
    }
    return Invalid(path + ": " + name + ": this run has " + value + ", the file " + *theirs);
  }
  return {};
}

size_t Chunks(const FloatArrays& arrays) {
  size_t chunks = 0;
  for (const std::span<float> array : arrays) chunks += (array.size() + kChunk - 1) / kChunk;
  return chunks;
}

// Calls visit(chunk number, part of an array) for all chunks in order.
template <typename Visit>
void ForEachChunk(const FloatArrays& arrays, Visit visit) {
  uint64_t number = 0;
  for (const std::span<float> array : arrays) {
    for (size_t at = 0; at < array.size(); at += kChunk) {
      visit(number++, array.subspan(at, std::min(kChunk, array.size() - at)));
    }
  }
}

// Reads the file to its end with `take` called for each entry; all keys must be there.
template <typename Take>
Result<io::StateFields> ReadAll(const std::string& path, const io::StateFields& expected,
                                size_t chunks, Take take) {
  ASSIGN_OR_RETURN(io::StateReader reader, io::StateReader::Open(path));
  RETURN_IF_ERROR(CheckSame(path, expected, reader.fields()));
  if (reader.floats_per_entry() != kChunk) {
    return Corrupt(path + ": expected " + std::to_string(kChunk) + " numbers a chunk, found " +
                   std::to_string(reader.floats_per_entry()));
  }
  io::StateBlock block;
  uint64_t next = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(block));
    if (!more) break;
    for (size_t i = 0; i < block.size(); ++i, ++next) {
      if (block.keys[i] != next || next >= chunks) {
        return Corrupt(path + ": expected chunks 0 to " + std::to_string(chunks) +
                       ", found chunk " + std::to_string(block.keys[i]));
      }
      take(block.state(i));
    }
  }
  if (next != chunks) {
    return Corrupt(path + ": expected " + std::to_string(chunks) + " chunks, found " +
                   std::to_string(next));
  }
  return reader.fields();
}

}  // namespace

Status SaveArrays(const std::string& path, const io::StateFields& fields, const FloatArrays& arrays,
                  io::AtPath at_path) {
  TRACE_SCOPE("save net");
  ASSIGN_OR_RETURN(
      io::StateWriter writer,
      io::StateWriter::Create(path, fields, {.floats_per_entry = kChunk, .at_path = at_path}));
  ForEachChunk(arrays, [&](uint64_t number, std::span<const float> part) {
    if (part.size() == kChunk) return writer.Add(number, part);
    std::array<float, kChunk> filled{};
    std::ranges::copy(part, filled.begin());
    writer.Add(number, filled);
  });
  return writer.Finish();
}

Result<io::StateFields> LoadArrays(const std::string& path, const io::StateFields& expected,
                                   const FloatArrays& arrays) {
  TRACE_SCOPE("load net");
  const size_t chunks = Chunks(arrays);
  RETURN_IF_ERROR(ReadAll(path, expected, chunks, [](std::span<const float>) {}).status());
  std::vector<std::span<float>> parts;
  parts.reserve(chunks);
  ForEachChunk(arrays, [&](uint64_t, std::span<float> part) { parts.push_back(part); });
  size_t next = 0;
  return ReadAll(path, expected, chunks, [&](std::span<const float> chunk) {
    const std::span<float> part = parts[next++];
    std::ranges::copy(chunk.first(part.size()), part.begin());
  });
}

}  // namespace millrace::convnets
