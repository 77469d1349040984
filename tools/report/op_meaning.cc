#include "tools/report/op_meaning.h"

#include <utility>

namespace millrace::tools {
namespace {

constexpr std::pair<const char*, const char*> kMeanings[] = {
    // A step.
    {"step", "a whole step"},
    {"margins", "X·w"},
    {"loss_residuals", "sigmoid, error"},
    {"gradient", "Xᵀ·e"},
    {"update", "the rule on the weights"},
    {"pull", "weights of the keys"},
    {"push", "update of the keys"},
    // Input.
    {"input_wait", "waiting for a batch"},
    {"read_block", "bytes of files"},
    {"frame_crc", "records and checksums"},
    {"decode", "Examples to CSR"},
    {"compact", "sorted unique keys"},
    {"cache_rows", "decoded rows kept in memory"},
    {"make batch", "images of a batch"},
    {"decode image", "JPEG or PNG to pixels"},
    // Between workers and servers.
    {"exchange_send", "gradient and keys out"},
    {"exchange_wait", "waiting for the reply"},
    {"push_dense", "gradients of a block out"},
    {"pull_dense", "weights of a block in"},
    {"dense_wait", "waiting for blocks"},
    {"serve_exchange", "one request, whole"},
    {"decode_request", "bytes to keys and gradients"},
    {"barrier_wait", "waiting for the last worker"},
    {"aggregate", "workers' gradients, in order"},
    {"apply", "the rule on the shard's weights"},
    {"gather", "weights of the keys"},
    {"touched_weights", "those that this push changes"},
    {"look_ahead", "after the answer: for the next one"},
    {"decode_next", "bytes to the next keys"},
    {"overlap", "next keys that the push will change"},
    {"encode_reply", "weights to bytes"},
    {"serve_push_dense", "takes a block's gradients"},
    {"serve_pull_dense", "gives a block's weights"},
    // Tests, checkpoints, models.
    {"test", "a whole test"},
    {"read_test", "test data, read ahead"},
    {"score_test", "a test beside the training"},
    {"checkpoint", "a whole checkpoint"},
    {"save_checkpoint", "state to its file"},
    {"load_checkpoint", "state from its file"},
    {"write_state_block", "a part of a state file"},
    {"read_state_block", "a part of a state file"},
    {"save_model", "the model to its file"},
    {"load_model", "a model from its file"},
    {"save net", "the net to its file"},
    {"load net", "a net from its file"},
    // Nets, beside their layers.
    {"pack images", "images side by side for SIMD"},
    {"copy images", "images into the net's input"},
    {"add up gradients", "of the threads"},
};

constexpr std::pair<const char*, const char*> kWays[] = {
    {" forward", "the layer's output"},
    {" backward weights", "gradient of its weights"},
    {" backward data", "gradient of its input"},
    {" backward", "gradients of weights and input"},
};

}  // namespace

std::string OpMeaning(const std::string& op) {
  for (const auto& [name, meaning] : kMeanings) {
    if (op == name) return meaning;
  }
  for (const auto& [way, meaning] : kWays) {
    if (op.ends_with(way)) return meaning;
  }
  return "";
}

}  // namespace millrace::tools
