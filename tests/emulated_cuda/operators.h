// Operators: a launch infers its outputs on the meta backend, allocates them, queues the CPU's kernel and returns.
//
// An operator runs in one of four ways: as a view (at once, without a wait), queued, as a read (it gives the host
// a result of the device, so CUDA also waits), or in step: it waits here but would not on CUDA. Each is counted.
#pragma once
#include "device.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

namespace emulated {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::StorageImpl;
using Stack = torch::jit::Stack;

inline const int64_t computed_bytes = setting("EMULATED_CUDA_COMPUTED", INT64_MAX);
inline std::atomic<int64_t> launches{0};

// ------------------------------------------------------------------------------------------------ tensors
inline bool ours(const Tensor& t) { return t.defined() && t.device().type() == at::kCUDA; }

struct Below {  // kernels run without autograd and autocast
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard cast{c10::autocast_dispatch_keyset};
};

inline void take_bits(const Tensor& to, const Tensor& from) {
  if (from.unsafeGetTensorImpl()->is_wrapped_number()) to.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (from.is_conj()) to._set_conj(true);
  if (from.is_neg()) to._set_neg(true);
}
inline Tensor made(c10::Storage storage, DispatchKey key, const Tensor& like) {
  Tensor t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), DispatchKeySet(key), like.dtype());
  t.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return t;
}
inline void* data_of(const Tensor& t) { return const_cast<void*>(t.storage().data()); }
// The same memory as a CPU tensor that does not own it: the allocator keeps a block until its stream has passed.
inline Tensor on_cpu(const Tensor& t) {
  c10::Storage storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), t.storage().nbytes(),
                                                        c10::DataPtr(data_of(t), at::Device(at::kCPU)),
                                                        c10::GetCPUAllocator(), true));
  Tensor alias = made(std::move(storage), DispatchKey::CPU, t);
  take_bits(alias, t);
  return alias;
}
inline Tensor seen_by_cpu(const Tensor& t) { return ours(t) ? on_cpu(t) : t; }
inline Tensor on_device(c10::Storage storage, const Tensor& like) {
  return made(std::move(storage), DispatchKey::CUDA, like);
}
inline c10::Storage fresh(int64_t bytes) {
  return c10::Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes,
                                                       device_allocator.allocate(bytes), &device_allocator, true));
}
inline int64_t span(at::IntArrayRef size, at::IntArrayRef stride, int64_t offset, size_t item) {
  int64_t last = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    if (!size[i]) return 0;
    last += (size[i] - 1) * stride[i];
  }
  return (last + offset) * (int64_t)item;
}
inline int64_t span(const Tensor& t) { return span(t.sizes(), t.strides(), t.storage_offset(), t.dtype().itemsize()); }

// ------------------------------------------------------------------------------------------------ launches and waits
inline void launch(std::function<void()> kernel) {
  faults().check();
  const auto number = ++launches;
  if (faults().no_kernel_image)
    raise(209, "CUDA error: no kernel image is available for execution on the device" + LATE);
  if (faults().planted.count(number)) kernel = [] { faults().break_context(); };
  current_queue().push(std::move(kernel));
}
inline void wait_here() {  // wait for everything queued on this stream
  current_queue().drain();
  faults().check();
}
// Allocate cuBLAS's workspace for a product; torch keeps one per thread and stream after the first product.
inline void workspace() {
  static auto* kept = new std::map<std::tuple<std::thread::id, int, int64_t>, c10::DataPtr>;
  static std::mutex mutex;
  const auto bytes = cache(current_device).workspace;
  if (!bytes) return;
  std::lock_guard<std::mutex> guard(mutex);
  auto& slot = (*kept)[{std::this_thread::get_id(), current_device, current_stream()}];
  if (!slot.get()) slot = device_allocator.allocate(bytes);
}
// Tell whether a kernel with so many bytes of tensors is computed. Otherwise memory stays unchanged, and sizes, counts
// and the allocator's figures of a large card need little CPU time.
inline bool computed(int64_t bytes) { return bytes <= computed_bytes; }
// `kept` and `pinned` keep host memory of the copy alive if the copy may outlive its tensor.
inline void copy_later(const Tensor& to, const Tensor& from, std::shared_ptr<HostBlock> pinned = nullptr,
                       c10::Storage kept = {}) {
  const bool runs = computed((int64_t)(to.nbytes() + from.nbytes()));
  launch([to, from, pinned, kept, runs] {
    if (!runs) return;
    Below below;
    at::native::copy_(const_cast<Tensor&>(to), from, false);
  });
}

// ------------------------------------------------------------------------------------------------ properties of an operator
struct Operator {
  c10::OperatorName id{"", ""};
  std::string name;
  bool view = false, queued = false, product = false, runs = true, reads = false;
  bool mixes = false;  // it may have arguments on the CPU
  const c10::SafeKernelFunction* meta = nullptr;
  int generator = -1;          // index of the generator argument
  std::vector<int> from;       // for each return: the argument it is, or -1
  std::vector<bool> writes;    // for each argument
  std::atomic<int64_t> times_queued{0}, times_read{0}, times_in_step{0};
};

inline bool holds_tensors(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) return holds_tensors(optional->getElementType());
  if (auto list = type->cast<c10::ListType>()) return holds_tensors(list->getElementType());
  return type->kind() == c10::TypeKind::TensorType;
}
inline bool has_meta(const c10::OperatorHandle& op) {
  // Not `hasComputedKernelForDispatchKey`: the meta key has a fallback that only raises.
  for (auto key : {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
                   DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeImplicitAutograd})
    if (op.hasKernelForDispatchKey(key)) return true;
  return false;
}
// The C++ meta kernels, as they are when this library is loaded: `import torch` covers most of them with Python ones,
// which are ten times slower.
inline const std::unordered_map<std::string, c10::SafeKernelFunction>& meta_kernels() {
  static auto* found = [] {
    auto* kernels = new std::unordered_map<std::string, c10::SafeKernelFunction>;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.rfind("aten::", 0)) continue;
      auto op = c10::Dispatcher::singleton().findOp(name);
      if (op && op->hasSchema() && has_meta(*op))
        kernels->emplace(toString(name), op->getComputedKernelForDispatchKey(DispatchKey::Meta));
    }
    return kernels;
  }();
  return *found;
}

inline const std::set<std::string> READS = {
    "aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique",
    "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount",
    "aten::is_set_to", "aten::_linalg_check_errors", "aten::repeat_interleave.Tensor"};
inline const std::set<std::string> NEVER_QUEUED = {"aten::_assert_async", "aten::_pin_memory", "aten::histc"};
inline const std::set<std::string> PRODUCTS = {
    "aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "aten::baddbmm_", "aten::mv",
    "aten::addmv", "aten::addmv_", "aten::dot", "aten::_scaled_mm", "aten::addbmm", "aten::_addmm_activation"};
inline const std::set<std::string> MIXING = {  // indices and lengths may be on the CPU
    "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index",
    "aten::_pin_memory", "aten::set_", "aten::_to_copy", "aten::resize_as_", "aten::_amp_update_scale_"};

inline Operator* described(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  auto* found = new Operator;
  found->id = op.operator_name();
  found->name = toString(found->id);
  const auto& base = op.operator_name().name;
  found->product = PRODUCTS.count(base);
  found->mixes = MIXING.count(base);
  found->reads = READS.count(base) || op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  found->runs = op.hasComputedKernelForDispatchKey(DispatchKey::CPU);
  if (auto known = meta_kernels().find(found->name); known != meta_kernels().end()) found->meta = &known->second;
  for (size_t a = 0; a < schema.arguments().size(); ++a) {
    const auto& argument = schema.arguments()[a];
    found->writes.push_back(argument.alias_info() && argument.alias_info()->isWrite());
    auto type = argument.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::GeneratorType) found->generator = (int)a;
  }
  bool queued = base.rfind("aten::", 0) == 0 && !found->reads && !NEVER_QUEUED.count(base) && has_meta(op) &&
                !(op.hasTag(at::Tag::nondeterministic_seeded) && found->generator < 0);
  for (const auto& result : schema.returns()) {
    queued = queued && holds_tensors(result.type());
    int from = -1;
    if (const auto* alias = result.alias_info()) {
      if (!alias->isWrite()) found->view = true;
      for (size_t a = 0; alias->isWrite() && a < schema.arguments().size(); ++a) {
        const auto* other = schema.arguments()[a].alias_info();
        if (other && other->isWrite() && other->beforeSets() == alias->beforeSets()) from = (int)a;
      }
      if (alias->isWrite() && from < 0) queued = false;
    }
    found->from.push_back(from);
  }
  found->queued = queued && !found->view;
  return found;
}
inline std::mutex operators_mutex;
inline std::unordered_map<const void*, Operator*>& operators() {
  static auto* all = new std::unordered_map<const void*, Operator*>;
  return *all;
}
inline Operator& operator_of(const c10::OperatorHandle& op) {
  std::lock_guard<std::mutex> guard(operators_mutex);
  auto& slot = operators()[&op.schema()];
  if (!slot || slot->id != op.operator_name()) slot = described(op);  // an unloaded library's address may be reused
  return *slot;
}

// ------------------------------------------------------------------------------------------------ arguments
template <class F>
void each(c10::IValue& value, F f) {  // replaces the tensors of an argument
  if (value.isTensor()) {
    auto t = value.toTensor();
    if (t.defined()) value = f(t);
  } else if (value.isTensorList()) {
    std::vector<Tensor> list;
    for (const auto& t : value.toTensorVector()) list.push_back(t.defined() ? f(t) : t);
    value = c10::List<Tensor>(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (std::optional<Tensor> t : value.toOptionalTensorVector()) {
      if (t && t->defined()) list.push_back(f(*t));
      else list.push_back(t);
    }
    value = list;
  }
}
// The device of the arguments, or the current one. All must be there, except for scalars on the CPU.
inline int device_of(const Operator& known, const Stack& stack, size_t begin, size_t count) {
  int device = -1;
  Tensor strange;
  for (size_t a = begin; a < begin + count; ++a) {
    auto value = stack[a];
    each(value, [&](const Tensor& t) {
      if (!ours(t)) {
        if (t.device().is_cpu() && t.dim() > 0) strange = t;
      } else if (device < 0) {
        device = t.device().index();
      } else {
        TORCH_CHECK(device == t.device().index(), "Expected all tensors to be on the same device, but found at least "
                    "two devices, cuda:", device, " and cuda:", t.device().index(), "! (", known.name, ")");
      }
      return t;
    });
    if (value.isDevice() && value.toDevice().is_cuda() && device < 0) device = value.toDevice().index();
  }
  TORCH_CHECK(known.mixes || known.view || device < 0 || !strange.defined(), "Expected all tensors to be on the same "
              "device, but found at least two devices, cuda:", device, " and cpu! (", known.name, ")");
  return device < 0 ? current_device : device;
}
// Tell whether an index is a mask: CUDA also counts the true elements of a mask on the host.
inline bool masked(const Operator& known, const Stack& stack, size_t begin) {
  bool found = false;
  for (size_t a = begin; known.mixes && a < stack.size(); ++a) {
    if (!stack[a].isOptionalTensorList() && !stack[a].isTensorList()) continue;
    auto value = stack[a];
    each(value, [&](const Tensor& t) {
      found = found || t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
      return t;
    });
  }
  return found;
}
inline at::Generator drawn(const c10::IValue& value) {
  if (value.isNone()) return generator_of(default_generator(current_device)).next();
  auto g = value.toGenerator();
  TORCH_CHECK(g.device().is_cuda(), "Expected a 'cuda' device type for generator but found '", g.device().type(), "'");
  return generator_of(g).next();
}
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};
struct Hush {  // CUDA's kernels do not warn that out= kernels resize their output
  Silence silence;
  c10::WarningHandler* before = c10::WarningUtils::get_warning_handler();
  Hush() { c10::WarningUtils::set_warning_handler(&silence); }
  ~Hush() { c10::WarningUtils::set_warning_handler(before); }
};
inline void grow(const Tensor& t, int64_t bytes) {  // copies the old content in the order of the stream
  auto* storage = t.storage().unsafeGetStorageImpl();
  if ((int64_t)storage->nbytes() >= bytes) return;
  auto data = device_allocator.allocate(bytes);
  if (storage->nbytes()) device_allocator.copy_data(data.get(), storage->data(), storage->nbytes());
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(bytes);
}

// A product of 16-bit numbers is computed in fp32 and rounded once, like on tensor cores: the CPU's own kernel is a
// hundred times slower without instructions for such numbers. `widened` are the arguments that the kernel writes.
inline bool is_16_bit(const Tensor& t) { return t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf; }
inline std::vector<std::pair<Tensor, Tensor>> widen(const Operator& known, Stack& stack) {
  std::vector<std::pair<Tensor, Tensor>> widened;
  if (!known.product || known.id.overload_name.find("dtype") != std::string::npos || known.id.name == "aten::_scaled_mm")
    return widened;
  for (size_t a = 0; a < stack.size(); ++a)
    each(stack[a], [&](const Tensor& t) {
      if (!is_16_bit(t)) return t;
      Tensor wide = t.to(at::kFloat);
      if (known.writes[a]) widened.emplace_back(t, wide);
      return wide;
    });
  return widened;
}

// ------------------------------------------------------------------------------------------------ queued
// Queue the CPU's kernel of `op` on its arguments from `begin`; write results that are no arguments to `targets`.
inline void queue_kernel(const c10::OperatorHandle& op, const Operator& known, const Stack& stack, size_t begin,
                         std::vector<Tensor> targets) {
  auto arguments = std::make_shared<Stack>();
  int64_t bytes = 0;
  for (const auto& t : targets) bytes += t.defined() ? (int64_t)t.nbytes() : 0;
  for (size_t a = begin; a < stack.size(); ++a) {
    auto value = stack[a];
    if ((int)(a - begin) == known.generator) value = drawn(value);
    if (value.isDevice()) value = at::Device(at::kCPU);
    each(value, [&bytes](const Tensor& t) {
      bytes += (int64_t)t.nbytes();
      if (ours(t)) return on_cpu(t);
      Below below;
      Tensor copy = t.clone();
      if (t.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      return copy;
    });
    arguments->push_back(std::move(value));
  }
  if (!computed(bytes)) return launch([arguments, targets = std::move(targets)] {});
  const auto* self = &known;
  launch([op, arguments, targets = std::move(targets), self] {
    Below below;
    at::NoGradGuard no_grad;
    Hush hush;
    Stack run = *arguments;  // a graph replays it
    const auto widened = widen(*self, run);
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &run);
    for (const auto& [to, from] : widened) at::native::copy_(const_cast<Tensor&>(to), from, false);
    size_t next = 0;
    auto put = [&](const Tensor& result) {
      const Tensor& to = targets.at(next++);
      if (!to.defined() || !result.defined() || (!to.numel() && !result.numel())) return;
      TORCH_CHECK(to.sizes() == result.sizes(), self->name, ": meta says ", to.sizes(), ", the CPU's kernel ", result.sizes());
      at::native::copy_(const_cast<Tensor&>(to), result, false);
    };
    const auto returns = self->from.size();
    for (size_t r = 0; r < returns; ++r) {
      if (self->from[r] >= 0) continue;
      auto& value = run[run.size() - returns + r];
      if (value.isTensor()) put(value.toTensor());
      else if (value.isTensorList()) for (const auto& t : value.toTensorVector()) put(t);
      else ++next;
    }
  });
}

// Queue an operator whose outputs the meta backend can infer; otherwise return false and do nothing.
inline bool on_the_queue(const c10::OperatorHandle& op, Operator& known, Stack* stack, size_t begin, size_t count) {
  struct Pair {
    Tensor device, meta;
  };
  std::vector<Pair> pairs;
  std::vector<std::pair<StorageImpl*, c10::Storage>> storages;
  auto to_meta = [&](const Tensor& t) {
    auto* key = t.storage().unsafeGetStorageImpl();
    c10::Storage storage;
    for (auto& [from, to] : storages)
      if (from == key) storage = to;
    if (!storage) {
      storage = c10::Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), t.storage().nbytes(),
                                                              c10::DataPtr(nullptr, at::Device(at::kMeta)),
                                                              c10::GetAllocator(at::kMeta), true));
      storages.emplace_back(key, storage);
    }
    Tensor meta = made(std::move(storage), DispatchKey::Meta, t);
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
    if (ours(t)) pairs.push_back({t, meta});
    return meta;
  };
  Stack meta;
  bool odd = false;
  for (size_t a = 0; a < count; ++a) {
    auto value = (*stack)[begin + a];
    if (value.isDevice()) value = at::Device(at::kMeta);
    each(value, [&](const Tensor& t) {
      odd = odd || t.layout() != at::kStrided || (!t.device().is_cpu() && !ours(t)) || t.is_conj() || t.is_neg() ||
            (known.writes[a] && !ours(t));
      return odd ? t : to_meta(t);
    });
    if (odd) return false;
    if (value.isGenerator()) value = c10::IValue();
    meta.push_back(std::move(value));
  }
  try {
    Below below;
    Hush hush;
    if (known.meta) known.meta->callBoxed(op, DispatchKeySet(DispatchKey::Meta), &meta);
    else op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), &meta);
  } catch (const std::exception&) {
    return false;
  }
  // Outputs are allocated here: at the time and on the stream of the launch.
  std::vector<Tensor> targets;
  auto make = [&](const Tensor& t) {
    if (!t.defined()) {
      targets.push_back(t);
      return t;
    }
    odd = odd || t.device().type() != at::kMeta || t.layout() != at::kStrided;
    for (auto& s : storages) odd = odd || s.second.unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl();
    if (odd) return t;
    Tensor result = on_device(fresh(span(t)), t);
    targets.push_back(on_cpu(result));
    return result;
  };
  const auto returns = known.from.size();
  Stack results;
  for (size_t r = 0; r < returns; ++r) {
    if (known.from[r] >= 0) {
      results.push_back((*stack)[begin + known.from[r]]);
      continue;
    }
    auto& value = meta[meta.size() - returns + r];
    if (value.isTensor()) {
      results.push_back(make(value.toTensor()));
    } else if (value.isTensorList()) {
      std::vector<Tensor> list;
      for (const auto& t : value.toTensorVector()) list.push_back(make(t));
      results.push_back(c10::List<Tensor>(list));
    } else if (value.isNone()) {
      targets.emplace_back();
      results.push_back(value);
    } else {
      odd = true;
    }
  }
  if (odd) return false;
  for (auto& pair : pairs) {
    if (pair.device.sizes() == pair.meta.sizes() && pair.device.strides() == pair.meta.strides()) continue;
    grow(pair.device, span(pair.meta));
    pair.device.unsafeGetTensorImpl()->set_sizes_and_strides(pair.meta.sizes(), pair.meta.strides(), pair.meta.storage_offset());
  }
  if (known.product) workspace();
  queue_kernel(op, known, *stack, begin, std::move(targets));
  stack->erase(stack->begin() + (ptrdiff_t)begin, stack->end());
  for (auto& value : results) stack->push_back(std::move(value));
  return true;
}

// ------------------------------------------------------------------------------------------------ views, reads, in step
struct Seen {
  Tensor device, cpu;
};
inline Tensor to_device(const Tensor& t) {
  auto storage = fresh((int64_t)t.storage().nbytes());
  if (t.storage().nbytes()) memcpy(const_cast<void*>(storage.data()), t.storage().data(), t.storage().nbytes());
  return on_device(storage, t);
}
inline void take_back(const Seen& seen) {  // an out= argument that a kernel here has resized
  const bool moved = seen.cpu.storage().data() != seen.device.storage().data();
  if (!moved && seen.cpu.sizes() == seen.device.sizes() && seen.cpu.strides() == seen.device.strides()) return;
  if (moved) {
    const auto bytes = seen.cpu.storage().nbytes();
    auto storage = fresh((int64_t)bytes);
    if (bytes) memcpy(const_cast<void*>(storage.data()), seen.cpu.storage().data(), bytes);
    auto* old = seen.device.storage().unsafeGetStorageImpl();
    old->set_data_ptr_noswap(std::move(storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
    old->set_nbytes(bytes);
  }
  seen.device.unsafeGetTensorImpl()->set_sizes_and_strides(seen.cpu.sizes(), seen.cpu.strides(), seen.cpu.storage_offset());
}
inline void at_once(const c10::OperatorHandle& op, Operator& known, Stack* stack, size_t begin, size_t count) {
  std::vector<Seen> seen;
  for (size_t a = 0; a < count; ++a) {
    auto& value = (*stack)[begin + a];
    if ((int)a == known.generator) {
      value = drawn(value);
      continue;
    }
    each(value, [&](const Tensor& t) {
      if (!ours(t)) return t;
      seen.push_back({t, on_cpu(t)});
      return seen.back().cpu;
    });
    if (value.isDevice() && value.toDevice().is_cuda()) value = at::Device(at::kCPU);
  }
  {
    Below below;
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  }
  if (!known.view) for (auto& s : seen) take_back(s);
  auto back = [&](const Tensor& t) {
    if (!t.defined()) return t;
    for (auto& s : seen) if (t.is_same(s.cpu)) return s.device;
    for (auto& s : seen) {
      const bool same = t.storage().unsafeGetStorageImpl() == s.cpu.storage().unsafeGetStorageImpl() ||
                        (t.storage().data() && t.storage().data() == s.device.storage().data());
      if (!same) continue;
      Tensor view = on_device(s.device.storage(), t);
      take_bits(view, t);
      return view;
    }
    if (known.view) wait_here();  // operators like `reshape` made a copy
    return to_device(t);
  };
  for (size_t k = stack->size() - known.from.size(); k < stack->size(); ++k) {
    auto& value = (*stack)[k];
    if (value.isTensor()) {
      value = back(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<Tensor> list;
      for (const auto& t : value.toTensorVector()) list.push_back(back(t));
      value = c10::List<Tensor>(list);
    }
  }
}

inline void fallback(const c10::OperatorHandle& op, Stack* stack) {
  auto& known = operator_of(op);
  const auto count = op.schema().arguments().size(), begin = stack->size() - count;
  TORCH_CHECK_NOT_IMPLEMENTED(known.runs, "'", known.name, "' does not run on the emulated device: it is CUDA's own, "
                              "and the CPU has no such kernel");
  c10::DeviceGuard guard(gpu(device_of(known, *stack, begin, count)));
  if (known.queued && on_the_queue(op, known, stack, begin, count)) {
    ++known.times_queued;
    return;
  }
  if (!known.view) {
    const bool reads = known.reads || masked(known, *stack, begin);
    ++(reads ? known.times_read : known.times_in_step);
    if (known.product) workspace();
    current_queue().refuse_in_capture();
    launch([] {});
    wait_here();
  }
  at_once(op, known, stack, begin, count);
}

}  // namespace emulated
