// Operators with kernels for the device itself: memory, copies, and operators for which the CPU has no kernel.
#pragma once
#include "operators.h"

#include <ATen/native/ConvUtils.h>

namespace emulated {

using c10::IntArrayRef;

// ------------------------------------------------------------------------------------------------ memory
const int64_t rubbish = setting("EMULATED_CUDA_RUBBISH", 1);  // 0: none; 1: 64 KiB at each end; 2: everywhere

inline void spoil(const Tensor& t) {  // fresh memory contains arbitrary values
  const auto bytes = (int64_t)t.storage().nbytes();
  if (!bytes || current_queue().capturing) return;
  const auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) {
    launch([t = on_cpu(t)] {
      Below below;
      if (t.is_floating_point() || t.is_complex()) t.fill_(std::numeric_limits<double>::quiet_NaN());
      else if (t.scalar_type() == at::kBool) t.fill_(true);
      else memset(data_of(t), 0x7f, t.storage().nbytes());
    });
    return;
  }
  if (!rubbish) return;
  char* data = static_cast<char*>(data_of(t));
  const int byte = t.scalar_type() == at::kBool ? 1 : 0xA7;
  current_queue().push([data, bytes, byte] {
    const int64_t end = 65536;
    if (rubbish > 1 || bytes <= 2 * end) {
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
                    std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  auto stride = contiguous(size);
  if (format && *format == at::MemoryFormat::ChannelsLast) stride = c10::get_channels_last_strides_2d(size);
  if (format && *format == at::MemoryFormat::ChannelsLast3d) stride = c10::get_channels_last_strides_3d(size);
  return empty_strided(size, stride, dtype, layout, device, pinned);
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
inline void resize_storage(const Tensor& t, int64_t bytes) {
  c10::DeviceGuard guard(t.device());
  auto* storage = t.storage().unsafeGetStorageImpl();
  auto data = device_allocator.allocate(bytes);
  const auto both = std::min<int64_t>(bytes, (int64_t)storage->nbytes());
  if (both) device_allocator.copy_data(data.get(), storage->data(), both);
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(bytes);
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
      tell_wait("copy from the CPU");
      copy_later(on_cpu(self), on_cpu(source), nullptr, source.storage());
      current_queue().drain();
      faults().check();
    }
  } else {
    auto held = pinned_block(self.storage().data());
    const bool waits = !(non_blocking && held);
    if (waits) tell_wait("copy to the CPU");
    copy_later(on_cpu(self), on_cpu(source), held, waits ? self.storage() : c10::Storage());
    if (waits) {
      current_queue().drain();
      faults().check();
    }
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
    if (!at::native::is_nonzero(t)) faults().poison(710, "CUDA error: device-side assert triggered" + LATE);
  });
}
inline void assert_async_message(const Tensor& t, std::string_view) { assert_async(t); }

// ------------------------------------------------------------------------------------------------ convolutions
// All kinds, in one launch, with the CPU's algorithms: CUDA's are in cuDNN, or are stubs that a CPU build lacks.
inline std::vector<int64_t> expanded(const c10::IValue& value, size_t dimensions) {
  auto given = value.toIntVector();
  if (given.size() == 1) given.resize(dimensions, given[0]);
  return given;
}
inline void finish(const c10::OperatorHandle& op, Stack* stack, size_t begin, std::vector<Tensor> results) {
  std::vector<Tensor> targets;
  for (auto& r : results) targets.push_back(r.defined() ? on_cpu(r) : r);
  auto& known = operator_of(op);
  ++known.times_queued;
  const auto held = workspace();
  queue_kernel(op, known, *stack, begin, std::move(targets));
  stack->erase(stack->begin() + (ptrdiff_t)begin, stack->end());
  for (auto& r : results) stack->push_back(std::move(r));
}
inline void convolution(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = op.schema().arguments().size(), begin = stack->size() - count;
  c10::DeviceGuard guard(gpu(device_of(operator_of(op), *stack, begin, count)));
  auto argument = [&](size_t a) -> const c10::IValue& { return (*stack)[begin + a]; };
  const auto x = argument(0).toTensor(), w = argument(1).toTensor();
  const auto space = (size_t)w.dim() - 2;
  const auto stride = expanded(argument(3), space), padding = expanded(argument(4), space), dilation = expanded(argument(5), space),
             output_padding = expanded(argument(7), space);
  const bool transposed = argument(6).toBool();
  const auto groups = argument(8).toInt();
  TORCH_CHECK(x.dim() == w.dim(), "Expected ", w.dim(), "D input to convolution, but got input of size: ", x.sizes());
  const auto channels = transposed ? w.size(0) : w.size(1) * groups;
  TORCH_CHECK(x.size(1) == channels, "Given groups=", groups, ", weight of size ", w.sizes(), ", expected input", x.sizes(),
              " to have ", channels, " channels, but got ", x.size(1), " channels instead");
  TORCH_CHECK(x.scalar_type() == w.scalar_type(), "Input type (", x.scalar_type(), ") and weight type (", w.scalar_type(), ") should be the same");
  const auto size = transposed ? at::native::conv_input_size(x.sizes(), w.sizes(), padding, output_padding, stride, dilation, groups)
                               : at::native::conv_output_size(x.sizes(), w.sizes(), padding, stride, dilation);
  for (size_t d = 2; d < size.size(); ++d)
    TORCH_CHECK(size[d] > 0, "Kernel size can't be greater than actual input size: output would be ", IntArrayRef(size));
  finish(op, stack, begin, {at::empty(size, x.options().memory_format(x.suggest_memory_format()))});
}
inline void convolution_backward(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = op.schema().arguments().size(), begin = stack->size() - count;
  c10::DeviceGuard guard(gpu(device_of(operator_of(op), *stack, begin, count)));
  const auto grad = (*stack)[begin].toTensor(), x = (*stack)[begin + 1].toTensor(), w = (*stack)[begin + 2].toTensor();
  const auto wanted = (*stack)[begin + 10].toBoolList();
  finish(op, stack, begin, {wanted[0] ? at::empty_like(x) : Tensor(), wanted[1] ? at::empty_like(w) : Tensor(),
                            wanted[2] ? at::empty({grad.size(1)}, grad.options()) : Tensor()});
}

// ------------------------------------------------------------------------------------------------ cells of LSTM and GRU
// CUDA's fused ones (aten/src/ATen/native/cuda/RNN.cu), composed of single operators.
inline Tensor biased(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}
inline Tensor sum_if(const Tensor& t, bool wanted) { return wanted ? t.sum(0) : Tensor(); }

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& from_input, const Tensor& from_hidden, const Tensor& cx,
                                                    const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
  auto gates = (biased(from_input, input_bias) + biased(from_hidden, hidden_bias)).chunk(4, 1);
  const auto in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
  const auto cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}
inline std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const std::optional<Tensor>& grad_hy, const std::optional<Tensor>& grad_cy,
                                                             const Tensor& cx, const Tensor& cy, const Tensor& workspace, bool has_bias) {
  auto gates = workspace.chunk(4, 1);
  const auto &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const auto tanh_cy = cy.tanh();
  const auto grad = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cx);
  auto grad_cell = grad * out * (1 - tanh_cy * tanh_cy);
  if (grad_cy && grad_cy->defined()) grad_cell = grad_cell + *grad_cy;
  const auto grad_gates = at::cat({grad_cell * cell * in * (1 - in), grad_cell * cx * forget * (1 - forget),
                                   grad_cell * in * (1 - cell * cell), grad * tanh_cy * out * (1 - out)}, 1);
  return {grad_gates, grad_cell * forget, sum_if(grad_gates, has_bias)};
}
inline std::tuple<Tensor, Tensor> gru_cell(const Tensor& from_input, const Tensor& from_hidden, const Tensor& hx,
                                           const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
  auto input = biased(from_input, input_bias).chunk(3, 1), hidden = biased(from_hidden, hidden_bias).chunk(3, 1);
  const auto reset = (input[0] + hidden[0]).sigmoid(), update = (input[1] + hidden[1]).sigmoid();
  const auto fresh_state = (input[2] + reset * hidden[2]).tanh();
  return {fresh_state + update * (hx - fresh_state), at::cat({reset, update, fresh_state, hx, hidden[2]}, 1)};
}
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace, bool has_bias) {
  auto kept = workspace.chunk(5, 1);
  const auto &reset = kept[0], &update = kept[1], &fresh_state = kept[2], &hx = kept[3], &hidden = kept[4];
  const auto grad_update = grad * (hx - fresh_state) * (1 - update) * update;
  const auto grad_fresh = grad * (1 - update) * (1 - fresh_state * fresh_state);
  const auto grad_reset = grad_fresh * hidden * (1 - reset) * reset;
  const auto grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const auto grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {grad_input, grad_hidden, grad * update, sum_if(grad_input, has_bias), sum_if(grad_hidden, has_bias)};
}

}  // namespace emulated
