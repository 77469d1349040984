// How many values each field of the synthetic data has.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace::tools {

// `fields` cardinalities, each at least 1, that sum to exactly `num_features` >= fields. They are
// modelled on the public Criteo display-advertising data: 13 bucketed counts with tens of values,
// then 26 categorical fields with 3 to 10 million; other numbers of fields repeat or cut that list.
// Below its total the list is compressed by a power, so that a small model still has many fields
// with a choice; above, it is stretched.
std::vector<uint64_t> FieldCardinalities(uint64_t num_features, uint64_t fields);

}  // namespace millrace::tools
