// SPDX-License-Identifier: Apache-2.0
// Lists of keys on the wire, as varints: twice the number of features, plus one if the key of the
// intercept follows them; the first feature's key; the difference of each later one to the one
// before it. Keys are sorted and unique.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/base/pod_vector.h"
#include "io/base/raw_buffer.h"
#include "io/base/status.h"

namespace millrace::ps {

// The keys that a list may have.
struct KeyBounds {
  uint64_t limit = 0;  // features are below it; 0: any
  bool intercept = true;
};

// Replaces `out`.
void EncodeKeys(std::span<const uint64_t> keys, std::string& out);

// Not thread-safe (scratch memory).
class KeyDecoder {
 public:
  // After an error `keys` is unspecified. Memory grows with the size of `bytes`, not with the count
  // in it.
  Status Decode(std::string_view bytes, const KeyBounds& bounds, PodVector<uint64_t>& keys);

 private:
  RawBuffer padded_;
  PodVector<uint32_t> narrow_;
  PodVector<uint64_t> wide_;
};

// Identifies a list by its encoded bytes; never 0.
uint64_t ListSignature(std::string_view bytes);

}  // namespace millrace::ps
