// SPDX-License-Identifier: Apache-2.0
// A model that is read by many calls and replaced while they run. A call writes the model's address
// into a slot, a cache line that mostly one thread uses, before it reads from the model. The thread
// that replaces the model waits until no slot holds the old one. Calls wait for nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace millrace::score {

// `Scratch` is memory that belongs to a slot: a call has it for itself. scratch.UseModel(model)
// comes before its use with a model, and releases what it has of other models.
template <typename Model, typename Scratch>
class ModelSlots {
  struct Slot;

 public:
  explicit ModelSlots(std::unique_ptr<const Model> model) : current_(model.release()) {}
  ModelSlots(const ModelSlots&) = delete;
  ModelSlots& operator=(const ModelSlots&) = delete;
  ~ModelSlots() {
    const std::unique_ptr<const Model> last(current_.load());
    SlotBlock* block = first_.next.load();
    while (block) {
      const std::unique_ptr<SlotBlock> owned(block);
      block = block->next.load();
    }
  }

  // A call's hold on the model.
  class Hold {
   public:
    explicit Hold(ModelSlots& slots) : slots_(slots), slot_(slots.Acquire()) {
      slot_->scratch.UseModel(model());
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { slots_.Release(*slot_); }

    const Model& model() const { return *slot_->model.load(std::memory_order_relaxed); }
    Scratch& scratch() { return slot_->scratch; }

   private:
    ModelSlots& slots_;
    Slot* slot_;
  };

  // Returns when the last call has released the old model, and frees it.
  void Swap(std::unique_ptr<const Model> model) {
    const std::lock_guard lock(swap_);
    // All operations on `current_`, `swapping_` and slots have one order. A call that is not seen
    // in its slot below looks at `current_` later, and finds the new model.
    const std::unique_ptr<const Model> old(current_.exchange(model.release()));
    swapping_.store(true);
    for (SlotBlock* block = &first_; block; block = block->next.load()) {
      for (Slot& slot : block->slots) {
        while (slot.model.load() == old.get()) slot.model.wait(old.get());
      }
    }
    swapping_.store(false);
    ReleaseScratch();
  }

 private:
  static constexpr size_t kBlockSlots = 64;

  struct alignas(128) Slot {
    std::atomic<const Model*> model = nullptr;  // null: free
    Scratch scratch;
  };
  struct SlotBlock {
    std::array<Slot, kBlockSlots> slots;
    std::atomic<SlotBlock*> next = nullptr;
  };

  // Where this thread looks first.
  static size_t ThreadNumber() {
    static std::atomic<size_t> threads = 0;
    static thread_local const size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    return number;
  }

  Slot* Acquire() {
    const Model* model = current_.load();
    Slot* const slot = FindFree(model);
    // The slot protects a model that is the current one while it is there.
    for (const Model* now = current_.load(); now != model; now = current_.load()) {
      model = now;
      Put(*slot, model);
    }
    return slot;
  }

  Slot* FindFree(const Model* model) {
    const size_t first = ThreadNumber();
    for (SlotBlock* block = &first_;; block = NextOf(*block)) {
      for (size_t i = 0; i < kBlockSlots; ++i) {
        Slot& slot = block->slots[(first + i) % kBlockSlots];
        const Model* free = nullptr;
        if (slot.model.compare_exchange_strong(free, model)) return &slot;
      }
    }
  }

  static SlotBlock* NextOf(SlotBlock& block) {
    if (SlotBlock* const next = block.next.load()) return next;
    auto made = std::make_unique<SlotBlock>();
    SlotBlock* next = nullptr;
    if (block.next.compare_exchange_strong(next, made.get())) return made.release();
    return next;
  }

  // Calls that are running have released their scratch memory of the old model.
  void ReleaseScratch() {
    const Model* const model = current_.load();
    for (SlotBlock* block = &first_; block; block = block->next.load()) {
      for (Slot& slot : block->slots) {
        const Model* free = nullptr;
        if (!slot.model.compare_exchange_strong(free, model)) continue;
        slot.scratch.UseModel(*model);
        Release(slot);
      }
    }
  }

  void Put(Slot& slot, const Model* model) {
    slot.model.store(model);
    if (swapping_.load()) slot.model.notify_all();
  }
  void Release(Slot& slot) { Put(slot, nullptr); }

  std::atomic<const Model*> current_;
  std::atomic<bool> swapping_ = false;
  std::mutex swap_;  // of swaps
  SlotBlock first_;
};

}  // namespace millrace::score
