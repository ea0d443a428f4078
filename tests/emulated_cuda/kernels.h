// Operators with kernels for the device itself: memory, copies, and operators for which the CPU has no kernel.
#pragma once
#include "operators.h"

namespace emulated {

using c10::IntArrayRef;

// ------------------------------------------------------------------------------------------------ memory
inline void spoil(const Tensor& t) {  // fresh memory contains arbitrary values: here, at each end
  const auto bytes = (int64_t)t.storage().nbytes();
  if (!bytes || current_queue().capturing) return;
  char* data = static_cast<char*>(data_of(t));
  const int byte = t.scalar_type() == at::kBool ? 1 : 0xA7;
  current_queue().push([data, bytes, byte] {
    const int64_t end = 65536;
    if (bytes <= 2 * end) {
      memset(data, byte, bytes);
    } else {
      memset(data, byte, end);
      memset(data + bytes - end, byte, end);
    }
  }, false);
}
inline std::vector<int64_t> contiguous(IntArrayRef size) {
  std::vector<int64_t> stride(size.size());
  int64_t next = 1;
  for (int64_t i = (int64_t)size.size() - 1; i >= 0; --i) {
    stride[i] = next;
    next *= std::max<int64_t>(size[i], 1);
  }
  return stride;
}
inline Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  for (auto length : size) TORCH_CHECK(length >= 0, "Trying to create tensor with negative dimension ", length, ": ", size);
  c10::DeviceGuard guard(device.value_or(at::Device(at::kCUDA)));
  const auto type = scalarTypeToTypeMeta(dtype.value_or(at::typeMetaToScalarType(at::get_default_dtype())));
  Tensor t = at::detail::make_tensor<c10::TensorImpl>(fresh(span(size, stride, 0, type.itemsize())),
                                                      DispatchKeySet(DispatchKey::CUDA), type);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, 0);
  spoil(t);
  return t;
}
inline Tensor empty(IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                    std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat>) {
  return empty_strided(size, contiguous(size), dtype, layout, device, pinned);
}
inline Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride, std::optional<int64_t> offset) {
  Tensor view = on_device(c10::Storage(self.storage()), self);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset.value_or(self.storage_offset()));
  take_bits(view, self);
  return view;
}
inline const Tensor& resize_(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat>) {
  if (self.sizes() == size) return self;
  c10::DeviceGuard guard(self.device());
  const auto stride = contiguous(size);
  grow(self, span(size, stride, self.storage_offset(), self.dtype().itemsize()));
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, self.storage_offset());
  return self;
}
inline Tensor& set_storage(Tensor& self, c10::Storage storage, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  const auto strides = stride.size() == size.size() ? stride.vec() : contiguous(size);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides, offset);
  return self;
}
inline Tensor& set_source(Tensor& self, c10::Storage storage) {
  const auto length = (int64_t)(storage.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(storage), 0, {length}, {1});
}
inline Tensor& set_tensor(Tensor& self, const Tensor& other) {
  return set_storage(self, other.storage(), other.storage_offset(), other.sizes(), other.strides());
}
inline Tensor& set_nothing(Tensor& self) { return set_storage(self, fresh(0), 0, {0}, {1}); }
inline void record_stream(Tensor& t, c10::Stream s) {
  if (t.has_storage()) Guard().recordDataPtrOnStream(t.storage().data_ptr(), s);
}
// ------------------------------------------------------------------------------------------------ copies
inline Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  TORCH_CHECK(source.defined(), "copy_: source is undefined");
  const auto wider = at::infer_size(self.sizes(), source.sizes());
  TORCH_CHECK(IntArrayRef(wider) == self.sizes(), "output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", IntArrayRef(wider));
  if (!self.numel()) return self;
  c10::DeviceGuard guard(ours(self) ? self.device() : source.device());
  if (ours(self) && ours(source)) {
    if (self.device() != source.device()) {  // on the target's stream; the two streams wait for each other
      auto& there = queue(source.device().index(), current_streams.at(source.device().index()));
      wait_on(current_queue(), mark(there));
      copy_later(on_cpu(self), on_cpu(source));
      wait_on(there, mark(current_queue()));
    } else {
      copy_later(on_cpu(self), on_cpu(source));
    }
  } else if (ours(self)) {
    auto held = pinned_block(source.storage().data());
    if (non_blocking && held && source.is_contiguous() && source.dtype() == self.dtype()) {
      copy_later(on_cpu(self), on_cpu(source), held);  // the source is read only when the copy runs
    } else if (non_blocking) {  // pageable memory is copied at once
      Tensor staged;
      {
        Below below;
        staged = source.clone();
      }
      copy_later(on_cpu(self), staged);
    } else {
      current_queue().refuse_in_capture();
      copy_later(on_cpu(self), on_cpu(source), nullptr, source.storage());
      wait_here();
    }
  } else {
    auto held = pinned_block(self.storage().data());
    const bool waits = !(non_blocking && held);
    if (waits) current_queue().refuse_in_capture();
    copy_later(on_cpu(self), on_cpu(source), held, waits ? self.storage() : c10::Storage());
    if (waits) wait_here();
  }
  return self;
}

// ------------------------------------------------------------------------------------------------ randomness, asserts
inline std::tuple<Tensor, Tensor> native_dropout(const Tensor& x, double p, std::optional<bool> train) {
  auto mask = at::empty_like(x, x.options().dtype(at::kBool));
  if (!train.value_or(true)) return {x.clone(), mask.fill_(true)};
  if (p >= 1) return {at::zeros_like(x), mask.fill_(false)};
  mask.bernoulli_(1 - p);
  return {at::mul(x, mask).mul_(1 / (1 - p)), mask};
}
inline void assert_async(const Tensor& t) {
  c10::DeviceGuard guard(t.device());
  launch([t = on_cpu(t)] {
    Below below;
    if (!at::native::is_nonzero(t)) faults().break_context();
  });
}
inline void assert_async_message(const Tensor& t, std::string_view) { assert_async(t); }

}  // namespace emulated
