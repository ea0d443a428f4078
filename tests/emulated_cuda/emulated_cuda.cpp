// An emulated CUDA device for a CPU-only build of torch: device type "cuda", memory in RAM, kernels of the CPU run by
// one worker thread per stream. This is the Python module from which `torch_side.py` makes `torch.cuda`.
#include "kernels.h"

#include <torch/extension.h>

#include <malloc.h>

namespace at {
using CUDAHooks = emulated::Hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, CUDAHooks)
}  // namespace at

namespace emulated {
using CUDAGuard = Guard;
C10_REGISTER_GUARD_IMPL(CUDA, CUDAGuard)

static bool installed = [] {
  c10::SetAllocator(at::kCUDA, &device_allocator, 255);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // kernels' temporaries reuse memory: fresh pages cost more than most kernels
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  meta_kernels();
  return true;
}();

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy_);
  m.impl("as_strided", as_strided);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_source);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_nothing);
  m.impl("record_stream", record_stream);
  m.impl("native_dropout", native_dropout);
  m.impl("_assert_async", assert_async);
  m.impl("_assert_async.msg", assert_async_message);
}

// ------------------------------------------------------------------------------------------------ graphs
struct Captured {
  std::shared_ptr<Graph> graph;
  int device = 0;
  ~Captured() {
    if (!graph) return;
    std::lock_guard<std::mutex> guard(cache(device).mutex);
    cache(device).graphs.erase(graph->pool);
  }
};
static void begin_capture(Captured& captured, int64_t pool) {
  auto& queue = current_queue();
  TORCH_CHECK(queue.id, "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default stream.)");
  queue.refuse_in_capture();
  captured.graph = std::make_shared<Graph>();
  captured.graph->pool = pool;
  captured.device = current_device;
  {
    std::lock_guard<std::mutex> guard(cache(current_device).mutex);
    cache(current_device).graphs.insert(pool);
  }
  queue.capturing = captured.graph;
}
static void end_capture(Captured& captured) {
  auto& queue = current_queue();
  TORCH_CHECK(queue.capturing && queue.capturing == captured.graph, "Capture must end on the same stream it began on.");
  queue.capturing = nullptr;
  faults().check();
}
static void replay(Captured& captured) {
  TORCH_CHECK(captured.graph, "Called CUDAGraph::replay without a preceding successful capture.");
  c10::DeviceGuard guard(gpu(captured.device));
  auto graph = captured.graph;
  launch([graph] { for (auto& kernel : graph->kernels) kernel(); });
}

static std::map<std::string, int64_t> stats(int device) {
  auto& c = cache(device);
  std::lock_guard<std::mutex> guard(c.mutex);
  return {{"allocated", c.allocated}, {"peak", c.peak}, {"reserved", c.reserved}, {"reserved_peak", c.reserved_peak},
          {"total", c.total}, {"left", c.left()}};
}
}  // namespace emulated

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace emulated;
  // The machine.
  m.def("add_devices", [](int count) { device_count = count; });
  m.def("set_memory", [](int device, int64_t total, int64_t workspace) {
    cache(device).total = total;
    cache(device).workspace = workspace;
  });
  m.def("current_device", [] { return current_device; });
  m.def("set_device", &select_device);
  // Memory.
  m.def("stats", &stats);
  m.def("reset_peak", [](int device) {
    std::lock_guard<std::mutex> guard(cache(device).mutex);
    cache(device).peak = cache(device).allocated;
    cache(device).reserved_peak = cache(device).reserved;
  });
  m.def("empty_cache", [](int device) {
    faults().check_sticky();
    cache(device).empty();
  });
  // Streams and events.
  m.def("synchronize", &wait_for_device);
  m.def("drain", &drain_all);
  m.def("current_stream", [](int device) { return current_streams.at(device); });
  m.def("set_stream", [](int device, int64_t stream) { current_streams.at(device) = stream; });
  m.def("new_stream", &new_stream);
  m.def("elapsed", [](int64_t first, int64_t last) { return Guard().elapsedTime((void*)first, (void*)last, 0); });
  m.def("generator", [](int device) { return default_generator(device); });
  // Graphs.
  py::class_<Captured>(m, "Captured").def(py::init<>());
  m.def("begin_capture", &begin_capture);
  m.def("end_capture", &end_capture);
  m.def("replay", &replay);
  m.def("is_capturing", [] {
    faults().check_sticky();
    return current_queue().capturing != nullptr;
  });
  // Functions for tests.
  m.def("set_delay_us", [](int64_t delay_us) { pace().delay_us = delay_us; });
  m.def("fail_allocation", [](int64_t number, int device) {
    std::lock_guard<std::mutex> guard(cache(device).mutex);
    cache(device).fail_at = number ? cache(device).allocations + number : 0;
  });
  m.def("fail_launch", [](int64_t number) { faults().planted.insert(launches + number); });
  m.def("lack_kernels", [] { faults().no_kernel_image = true; });
  m.def("counts", [] {
    std::lock_guard<std::mutex> guard(operators_mutex);
    std::map<std::string, std::array<int64_t, 3>> counts;
    for (auto& [schema, known] : operators())
      if (known->times_queued || known->times_read || known->times_in_step)
        counts[known->name] = {known->times_queued, known->times_read, known->times_in_step};
    return counts;
  });
}
