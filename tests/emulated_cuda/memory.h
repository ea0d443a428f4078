// Device memory: a small version of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp). Pinned memory.
//
// Each stream and each captured graph has its own pool, so references need not be counted: a block that is freed while
// queued kernels still use it is given only to later work of the same stream.
#pragma once
#include "streams.h"

#include <c10/core/Allocator.h>

#include <cstring>
#include <tuple>

namespace emulated {

constexpr int64_t MiB = 1 << 20, BLOCK = 512, SMALL = MiB, SMALL_SEGMENT = 2 * MiB, LARGE_SEGMENT = 20 * MiB,
                  MIN_LARGE = 10 * MiB, ROUND_LARGE = 2 * MiB;

struct Pool {
  int64_t stream;
  bool small;
  int64_t graph;  // 0: not of a graph
  bool operator<(const Pool& o) const { return std::tie(stream, small, graph) < std::tie(o.stream, o.small, o.graph); }
};
struct Block {
  char* data;
  int64_t size;
  int device;
  Pool pool;
  bool used = false;
  Block *before = nullptr, *behind = nullptr;
  std::set<int64_t> others{};  // streams that record_stream named
};
struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->data < b->data;
  }
};

struct Cache {  // of one device
  int device = 0;
  std::mutex mutex;
  std::map<Pool, std::set<Block*, BySize>> free_blocks;
  std::deque<std::pair<std::vector<std::shared_ptr<EventState>>, Block*>> waiting;  // freed after these events
  std::map<const char*, const char*> ranges;  // of the segments: begin, end
  std::set<int64_t> graphs;  // pools of these graphs must not be freed
  int64_t allocated = 0, peak = 0, reserved = 0, reserved_peak = 0, allocations = 0;
  int64_t total = 0;  // bytes of the card
  int64_t context = 300 * MiB, fail_at = 0;
  int64_t workspace = 0;  // bytes of cuBLAS's workspace, see `operators.h`

  int64_t left() const { return std::max<int64_t>(0, total - context - reserved); }

  Block* malloc(int64_t wanted, int64_t stream) {
    const int64_t size = (std::max<int64_t>(wanted, 1) + BLOCK - 1) / BLOCK * BLOCK;
    std::unique_lock<std::mutex> lock(mutex);
    const auto& capturing = queue(device, stream).capturing;
    const Pool pool{stream, size <= SMALL, capturing ? capturing->pool : 0};
    reclaim(false);
    Block* block = nullptr;
    if (++allocations != fail_at) {
      block = find(size, pool);
      if (!block) block = segment(size, pool);
      if (!block && !capturing) {  // as CUDA does: wait for everything, free the cache, try again
        lock.unlock();
        drain_device(device);
        lock.lock();
        reclaim(true);
        give_back();
        block = segment(size, pool);
      }
    }
    if (!block) {
      const auto what = out_of_memory(wanted);
      lock.unlock();
      C10_THROW_ERROR(OutOfMemoryError, what);
    }
    const int64_t rest = block->size - size;
    if (pool.small ? rest >= BLOCK : rest > SMALL) split(block, size);
    block->used = true;
    allocated += block->size;
    peak = std::max(peak, allocated);
    return block;
  }
  void free(Block* block) {
    std::unique_lock<std::mutex> lock(mutex);
    allocated -= block->size;
    if (block->others.empty()) return put(block);
    const auto others_streams = block->others;
    lock.unlock();
    std::vector<std::shared_ptr<EventState>> passed;
    for (auto stream : others_streams)
      if (auto& other = queue(device, stream); !other.capturing) passed.push_back(mark(other));
    lock.lock();
    waiting.emplace_back(std::move(passed), block);
  }
  bool holds(const void* at) {
    std::lock_guard<std::mutex> guard(mutex);
    auto item = ranges.upper_bound(static_cast<const char*>(at));
    return item != ranges.begin() && static_cast<const char*>(at) < std::prev(item)->second;
  }
  void empty() {
    drain_device(device);
    std::lock_guard<std::mutex> guard(mutex);
    reclaim(true);
    give_back();
  }

 private:
  Block* find(int64_t size, const Pool& pool) {
    auto& blocks = free_blocks[pool];
    Block key{nullptr, size, device, pool};
    auto found = blocks.lower_bound(&key);
    if (found == blocks.end()) return nullptr;
    Block* block = *found;
    blocks.erase(found);
    return block;
  }
  Block* segment(int64_t size, const Pool& pool) {
    const int64_t bytes = pool.small          ? SMALL_SEGMENT
                          : size < MIN_LARGE ? LARGE_SEGMENT
                                             : (size + ROUND_LARGE - 1) / ROUND_LARGE * ROUND_LARGE;
    void* data = nullptr;
    if (bytes > left() || posix_memalign(&data, 2 * MiB, bytes)) return nullptr;
    reserved += bytes;
    reserved_peak = std::max(reserved_peak, reserved);
    ranges[static_cast<char*>(data)] = static_cast<char*>(data) + bytes;
    return new Block{static_cast<char*>(data), bytes, device, pool};
  }
  void split(Block* block, int64_t size) {
    auto* rest = new Block{block->data + size, block->size - size, device, block->pool};
    rest->before = block;
    rest->behind = block->behind;
    if (block->behind) block->behind->before = rest;
    block->behind = rest;
    block->size = size;
    free_blocks[block->pool].insert(rest);
  }
  void put(Block* block) {  // add it to the free blocks, merged with free neighbours
    auto& blocks = free_blocks[block->pool];
    block->used = false;
    block->others.clear();
    if (Block* other = block->before; other && !other->used && blocks.erase(other)) {
      block->data = other->data;
      block->size += other->size;
      block->before = other->before;
      if (other->before) other->before->behind = block;
      delete other;
    }
    if (Block* other = block->behind; other && !other->used && blocks.erase(other)) {
      block->size += other->size;
      block->behind = other->behind;
      if (other->behind) other->behind->before = block;
      delete other;
    }
    blocks.insert(block);
  }
  void reclaim(bool wait) {
    for (auto item = waiting.begin(); item != waiting.end();) {
      bool over = true;
      for (auto& state : item->first) {
        if (wait) state->wait();
        over = over && state->query();
      }
      if (!over) {
        ++item;
        continue;
      }
      put(item->second);
      item = waiting.erase(item);
    }
  }
  void give_back() {  // free unused segments
    for (auto& [pool, blocks] : free_blocks) {
      if (graphs.count(pool.graph)) continue;
      for (auto item = blocks.begin(); item != blocks.end();) {
        Block* block = *item;
        if (block->before || block->behind) {
          ++item;
          continue;
        }
        item = blocks.erase(item);
        reserved -= block->size;
        ranges.erase(block->data);
        ::free(block->data);
        delete block;
      }
    }
  }
  static std::string human(int64_t bytes) {
    char text[64];
    if (bytes >= (1LL << 30)) snprintf(text, sizeof text, "%.2f GiB", (double)bytes / (1 << 30));
    else if (bytes >= MiB) snprintf(text, sizeof text, "%.2f MiB", (double)bytes / MiB);
    else snprintf(text, sizeof text, "%lld bytes", (long long)bytes);
    return text;
  }
  std::string out_of_memory(int64_t wanted) const {
    return "CUDA out of memory. Tried to allocate " + human(wanted) + ". GPU " + std::to_string(device) +
           " has a total capacity of " + human(total) + " of which " + human(left()) +
           " is free. Of the allocated memory " + human(allocated) + " is allocated by PyTorch. (emulated)";
  }
};
inline Cache& cache(int device) {
  static auto* all = [] {
    auto* caches = new std::array<Cache, MAX_DEVICES>;
    for (int d = 0; d < MAX_DEVICES; ++d) (*caches)[d].device = d;
    return caches;
  }();
  return all->at(device);
}

inline void release_block(void* block) {
  if (block) cache(static_cast<Block*>(block)->device).free(static_cast<Block*>(block));
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device here(c10::kCUDA, (c10::DeviceIndex)current_device);
    if (!bytes) return {nullptr, nullptr, &release_block, here};
    auto* block = cache(current_device).malloc((int64_t)bytes, current_stream());
    return {block->data, block, &release_block, here};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    current_queue().push([to, from, bytes] { memcpy(to, from, bytes); });
  }
};
inline DeviceAllocator device_allocator;

// ------------------------------------------------------------------------------------------------ pinned memory
struct HostBlock {  // tasks that read or write a block keep it alive
  void* data;
  size_t bytes;
  ~HostBlock() { free(data); }
};
inline std::mutex pinned_mutex;
inline std::map<const char*, std::shared_ptr<HostBlock>> pinned_blocks;
inline std::shared_ptr<HostBlock> pinned_block(const void* at) {
  std::lock_guard<std::mutex> guard(pinned_mutex);
  auto item = pinned_blocks.upper_bound(static_cast<const char*>(at));
  if (item == pinned_blocks.begin()) return nullptr;
  --item;
  const auto size = std::max<size_t>(item->second->bytes, 1);
  return static_cast<const char*>(at) < item->first + size ? item->second : nullptr;
}
inline void unpin(void* data) {
  std::shared_ptr<HostBlock> last;
  std::lock_guard<std::mutex> guard(pinned_mutex);
  auto item = pinned_blocks.find(static_cast<char*>(data));
  if (item == pinned_blocks.end()) return;
  last = item->second;
  pinned_blocks.erase(item);
}
struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    TORCH_CHECK(!posix_memalign(&data, BLOCK, bytes + 1), "host out of memory");
    std::lock_guard<std::mutex> guard(pinned_mutex);
    pinned_blocks[static_cast<char*>(data)] = std::shared_ptr<HostBlock>(new HostBlock{data, bytes});
    return {data, data, &unpin, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { memcpy(to, from, bytes); }
};
inline PinnedAllocator pinned_allocator;

}  // namespace emulated
