// What torch asks of a device: the guard, the generator, the hooks.
#pragma once
#include "memory.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace emulated {

using at::Tensor;
inline at::Device gpu(int index) { return at::Device(at::kCUDA, (at::DeviceIndex)index); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  using Device = c10::Device;
  using Stream = c10::Stream;
  static Queue& of(const Stream& s) { return queue(s.device_index() < 0 ? current_device : s.device_index(), s.id()); }
  static int index(Device d) { return d.index() < 0 ? current_device : d.index(); }
  static Stream stream(int device, int64_t id) { return Stream(Stream::UNSAFE, gpu(device), id); }

  c10::DeviceType type() const override { return at::kCUDA; }
  Device exchangeDevice(Device d) const override {
    const int before = current_device;
    select_device(index(d));
    return gpu(before);
  }
  Device getDevice() const override { return gpu(current_device); }
  void setDevice(Device d) const override { select_device(index(d)); }
  void uncheckedSetDevice(Device d) const noexcept override {
    if (d.index() >= 0 && d.index() < device_count) current_device = d.index();
  }
  Stream getStream(Device d) const override { return stream(index(d), current_streams.at(index(d))); }
  Stream getDefaultStream(Device d) const override { return stream(index(d), 0); }
  Stream getStreamFromGlobalPool(Device d, bool) const override { return stream(index(d), new_stream(index(d))); }
  Stream getNewStream(Device d, int) const override { return stream(index(d), new_stream(index(d))); }
  Stream exchangeStream(Stream s) const override {
    auto& slot = current_streams.at(of(s).device);
    auto before = stream(of(s).device, slot);
    slot = s.id();
    return before;
  }
  void* getStreamNativeHandle(const Stream s) const override { return s.id() ? &of(s) : nullptr; }
  bool isStreamCapturing(const Stream& s) const override { return of(s).capturing != nullptr; }
  c10::DeviceIndex deviceCount() const noexcept override { return (c10::DeviceIndex)device_count; }

  void record(void** event, const Stream& s, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    if (!*event) {
      auto* made = new Event;
      made->timing = flag == c10::EventFlag::BACKEND_DEFAULT;
      *event = made;
    }
    auto* known = static_cast<Event*>(*event);
    auto state = mark(of(s));
    std::lock_guard<std::mutex> guard(known->mutex);
    known->state = state;
  }
  void block(void* event, const Stream& s) const override { wait_on(of(s), state_of(event)); }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  bool queryEvent(void* event) const override {
    auto state = state_of(event);
    if (state && !state->query()) return false;
    faults().check();
    return true;
  }
  bool queryStream(const Stream& s) const override {
    if (!of(s).idle()) return false;
    faults().check();
    return true;
  }
  void synchronizeStream(const Stream& s) const override {
    of(s).drain();
    faults().check();
  }
  void synchronizeEvent(void* event) const override {
    if (auto state = state_of(event)) state->wait();
    faults().check();
  }
  void synchronizeDevice(const c10::DeviceIndex d) const override {
    wait_for_device(d < 0 ? current_device : d);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& s) const override {
    if (data.get_deleter() != &release_block || !data.get_context()) return;
    auto* block = static_cast<Block*>(data.get_context());
    std::lock_guard<std::mutex> guard(cache(block->device).mutex);
    if (block->pool.stream != s.id()) block->others.insert(s.id());
  }
  double elapsedTime(void* first, void* last, const c10::DeviceIndex) const override {
    auto from = state_of(first), to = state_of(last);
    TORCH_CHECK(from && to, "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(static_cast<Event*>(first)->timing && static_cast<Event*>(last)->timing,
                "Both events must be created with argument 'enable_timing=True'.");
    TORCH_CHECK(from->device == to->device, "Both events must be on one device.");
    TORCH_CHECK(from->query() && to->query(), "Both events must be completed before calculating elapsed time.");
    return std::chrono::duration<double, std::milli>(to->at - from->at).count();
  }
};

// A device's generator, as CUDA's: a seed and an offset, 16 bytes of state. Each launch draws from a CPU generator
// made of the two, so a queued kernel's numbers are settled at its launch.
struct Generator final : c10::GeneratorImpl {
  uint64_t seed_, offset_ = 0;
  mutable std::mutex settled;
  explicit Generator(int device, uint64_t seed = c10::default_rng_seed_val)
      : c10::GeneratorImpl(gpu(device), c10::DispatchKeySet(c10::DispatchKey::CUDA)), seed_(seed) {}
  void set_current_seed(uint64_t seed) override {
    std::lock_guard<std::mutex> guard(settled);
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override {
    std::lock_guard<std::mutex> guard(settled);
    offset_ = offset;
  }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    const auto seed = c10::detail::getNonDeterministicRandom(true);
    set_current_seed(seed);
    return seed;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                "RNG state must be a torch.ByteTensor");
    TORCH_CHECK(state.numel() == 16 || state.numel() == 8, "RNG state is wrong size");
    std::lock_guard<std::mutex> guard(settled);
    const auto* bytes = static_cast<const char*>(state.data());
    memcpy(&seed_, bytes, 8);
    offset_ = 0;
    if (state.numel() == 16) memcpy(&offset_, bytes + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    std::lock_guard<std::mutex> guard(settled);
    auto state = at::detail::empty_cpu({16}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    memcpy(state.data_ptr(), &seed_, 8);
    memcpy(static_cast<char*>(state.data_ptr()) + 8, &offset_, 8);
    return state.getIntrusivePtr();
  }
  c10::GeneratorImpl* clone_impl() const override {
    auto* copy = new Generator(device().index(), seed_);
    copy->offset_ = offset_;
    return copy;
  }
  at::Generator next() {
    std::lock_guard<std::mutex> guard(settled);
    uint64_t z = seed_ * 0x9E3779B97F4A7C15ull + (offset_ + 1) * 0xD1B54A32D192ED03ull + 0x5eed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    offset_ += 4;
    return at::detail::createCPUGenerator(z ^ (z >> 31));
  }
};
inline at::Generator& default_generator(int device) {
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    for (int d = 0; d < MAX_DEVICES; ++d) made->push_back(at::make_generator<Generator>(d));
    return made;
  }();
  return all->at(device);
}
inline Generator& generator_of(const at::Generator& g) { return *static_cast<Generator*>(g.unsafeGetGeneratorImpl()); }

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  static int index(c10::DeviceIndex d) { return d < 0 ? emulated::current_device : d; }
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count > 0; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return false; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return (c10::DeviceIndex)device_count; }
  c10::DeviceIndex current_device() const override { return (c10::DeviceIndex)emulated::current_device; }
  int getNumGPUs() const override { return device_count; }
  void setCurrentDevice(c10::DeviceIndex d) const override { select_device(d); }
  c10::DeviceIndex getCurrentDevice() const override { return (c10::DeviceIndex)emulated::current_device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override {
    const auto before = (c10::DeviceIndex)emulated::current_device;
    select_device(d);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override { return exchangeDevice((c10::DeviceIndex)index(d)); }
  void deviceSynchronize(c10::DeviceIndex d) const override {
    wait_for_device(index(d));
  }
  c10::Device getDeviceFromPtr(void* data) const override {
    for (int d = 0; d < device_count; ++d)
      if (cache(d).holds(data)) return gpu(d);
    return gpu(emulated::current_device);
  }
  bool isPinnedPtr(const void* data) const override { return pinned_block(data) != nullptr; }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
  at::Allocator* getCUDADeviceAllocator() const override { return &device_allocator; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex d) const override { return default_generator(index(d)); }
  at::Generator getNewGenerator(c10::DeviceIndex d) const override { return at::make_generator<Generator>(index(d)); }
};

}  // namespace emulated
