// Streams (a queue and a worker thread each), events, captures and faults. Knows nothing of tensors.
#pragma once
#include <Python.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace emulated {

constexpr int MAX_DEVICES = 16;
constexpr int STREAMS = 33;  // per device: the default stream and those of torch's pool
constexpr uint64_t CAPACITY = 1024;  // launches in a queue before a launch waits
using Clock = std::chrono::steady_clock;

inline int64_t setting(const char* name, int64_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? atoll(text) : otherwise;
}

// A wait must not hold the interpreter's lock: a worker may need it to drop the last reference to a Python object.
struct WithoutGil {
  PyThreadState* state = nullptr;
  WithoutGil() {
    if (Py_IsInitialized() && PyGILState_Check()) state = PyEval_SaveThread();
  }
  ~WithoutGil() {
    if (state) PyEval_RestoreThread(state);
  }
};

[[noreturn]] inline void raise(int code, const std::string& what) {
  throw c10::AcceleratorError({__func__, __FILE__, (uint32_t)__LINE__}, code, what + " (emulated)");
}

// ------------------------------------------------------------------------------------------------ faults
const std::string LATE =
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1";

const std::string ASSERTED = "CUDA error: device-side assert triggered" + LATE;

struct Faults {
  std::mutex mutex;
  std::set<int64_t> planted;  // numbers of the launches that fail
  bool no_kernel_image = false;
  std::atomic<bool> broken{false};  // the context: every later call of the driver fails
  std::string once;  // error of a CPU kernel, reported once
  std::atomic<bool> any{false};

  void break_context() {
    std::lock_guard<std::mutex> guard(mutex);
    broken = any = true;
  }
  void report_once(std::string what) {
    std::lock_guard<std::mutex> guard(mutex);
    if (once.empty()) once = std::move(what);
    any = true;
  }
  // The error of every call of the driver after the context is broken, including calls that do not use the device.
  void check_sticky() {
    if (broken) raise(710, ASSERTED);
  }
  void check() {
    if (!any) return;
    check_sticky();
    std::string what;
    {
      std::lock_guard<std::mutex> guard(mutex);
      what.swap(once);
      any = broken.load();
    }
    TORCH_CHECK(what.empty(), what);
  }
};
inline Faults& faults() {
  static auto* all = new Faults;
  return *all;
}

// ------------------------------------------------------------------------------------------------ interleaving
// How kernels are interleaved with the thread that launches them.
struct Pace {
  std::atomic<int64_t> delay_us{setting("EMULATED_CUDA_DELAY_US", 0)};
  // As in Windows' driver model: queued work reaches the device only at a wait or a query of an event.
  const bool batched = setting("EMULATED_CUDA_BATCH", 0) > 0;
  const int64_t device_wait_us = setting("EMULATED_CUDA_WAIT_US", 0);  // duration of a wait for an idle device
};
inline Pace& pace() {
  static auto* one = new Pace;
  return *one;
}

// ------------------------------------------------------------------------------------------------ streams
struct Graph {  // a captured graph: what its replay queues, in order
  int64_t pool;
  std::vector<std::function<void()>> kernels;
};

inline thread_local bool on_worker = false;

struct Queue {
  struct Task {
    std::function<void()> run;
    bool kernel;
    int64_t pause_us;
  };
  int device = 0;
  int64_t id = 0;
  std::mutex mutex;
  std::condition_variable work, progress;
  std::deque<Task> tasks;
  uint64_t pushed = 0, submitted = 0, done = 0;
  bool started = false;
  std::shared_ptr<Graph> capturing;  // launches are recorded there instead of going to the worker

  void refuse_in_capture() {
    if (capturing) raise(900, "CUDA error: operation not permitted when stream is capturing");
  }
  void push(std::function<void()> run, bool kernel = true) {
    if (capturing && kernel) {
      capturing->kernels.push_back(std::move(run));
      return;
    }
    std::unique_lock<std::mutex> lock(mutex);
    if (pushed - done >= CAPACITY) submit(lock);
    if (kernel && !on_worker && pushed - done >= CAPACITY) wait(lock, [this] { return pushed - done < CAPACITY; });
    if (!started) {
      started = true;
      std::thread([this] { serve(); }).detach();
    }
    tasks.push_back({std::move(run), kernel, kernel ? pace().delay_us.load() : 0});
    ++pushed;
    if (!pace().batched) submit(lock);
  }
  void submit() {
    std::unique_lock<std::mutex> lock(mutex);
    submit(lock);
  }
  bool idle() {
    refuse_in_capture();
    std::unique_lock<std::mutex> lock(mutex);
    submit(lock);
    return done == pushed;
  }
  void drain() {
    refuse_in_capture();
    std::unique_lock<std::mutex> lock(mutex);
    submit(lock);
    const auto target = pushed;
    wait(lock, [this, target] { return done >= target; });
  }

 private:
  void submit(std::unique_lock<std::mutex>&) {
    submitted = pushed;
    work.notify_one();
  }
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition over) {
    if (over()) return;
    lock.unlock();
    {
      WithoutGil without;
      lock.lock();
      progress.wait(lock, over);
      lock.unlock();  // before the interpreter's lock is taken again
    }
    lock.lock();
  }
  void serve() {
    on_worker = true;
    c10::setThreadName("emulated_cuda");
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      work.wait(lock, [this] { return done < submitted; });
      {
        Task task = std::move(tasks.front());
        tasks.pop_front();
        lock.unlock();
        if (task.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(task.pause_us));
        run(task);
        task.run = nullptr;  // drop its references before the kernel counts as done
        lock.lock();
      }
      ++done;
      progress.notify_all();
    }
  }
  static void run(Task& task) {
    try {
      if (!task.kernel || !faults().broken) task.run();
    } catch (const c10::IndexError&) {
      faults().break_context();
    } catch (const c10::Error& error) {
      faults().report_once(std::string("emulated device: ") + error.what_without_backtrace());
    } catch (const std::exception& error) {
      faults().report_once(std::string("emulated device: ") + error.what());
    }
  }
};

inline Queue& queue(int device, int64_t id) {
  static auto* all = [] {
    auto* queues = new std::array<std::array<Queue, STREAMS>, MAX_DEVICES>;
    for (int d = 0; d < MAX_DEVICES; ++d)
      for (int s = 0; s < STREAMS; ++s) {
        (*queues)[d][s].device = d;
        (*queues)[d][s].id = s;
      }
    return queues;
  }();
  return all->at(device).at(id);
}

inline int device_count = 1;
inline thread_local int current_device = 0;
inline thread_local std::array<int64_t, MAX_DEVICES> current_streams{};  // of each device
inline int64_t current_stream() { return current_streams[current_device]; }
inline Queue& current_queue() { return queue(current_device, current_stream()); }
inline int64_t new_stream(int device) {
  static std::array<std::atomic<int64_t>, MAX_DEVICES> made{};
  return 1 + made.at(device)++ % (STREAMS - 1);
}
inline void drain_device(int device) {
  for (int s = 0; s < STREAMS; ++s) queue(device, s).refuse_in_capture();
  for (int s = 0; s < STREAMS; ++s) queue(device, s).drain();
}
// Wait for a device, as a program requests; this takes time even if the device is idle.
inline void wait_for_device(int device) {
  drain_device(device);
  if (pace().device_wait_us > 0) {
    WithoutGil without;
    const auto until = Clock::now() + std::chrono::microseconds(pace().device_wait_us);
    while (Clock::now() < until) {
    }
  }
  faults().check();
}
inline void drain_all() {
  for (int d = 0; d < device_count; ++d) drain_device(d);
}
inline void select_device(int device) {
  if (device < 0 || device >= device_count) raise(101, "CUDA error: invalid device ordinal" + LATE);
  current_device = device;
}

// ------------------------------------------------------------------------------------------------ events
struct EventState {  // one recording of an event
  Queue* on = nullptr;
  int device;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Clock::time_point at;
  void finish() {
    {
      std::lock_guard<std::mutex> guard(mutex);
      at = Clock::now();
      done = true;
    }
    changed.notify_all();
  }
  bool query() {
    on->submit();
    std::lock_guard<std::mutex> guard(mutex);
    return done;
  }
  void wait() {
    WithoutGil without;
    on->submit();
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return done; });
  }
};
struct Event {
  std::mutex mutex;
  std::shared_ptr<EventState> state;
  bool timing = false;
};
inline std::shared_ptr<EventState> state_of(void* event) {
  if (!event) return nullptr;
  auto* known = static_cast<Event*>(event);
  std::lock_guard<std::mutex> guard(known->mutex);
  return known->state;
}
inline std::shared_ptr<EventState> mark(Queue& queue) {
  queue.refuse_in_capture();
  auto state = std::make_shared<EventState>();
  state->on = &queue;
  state->device = queue.device;
  queue.push([state] { state->finish(); }, false);
  return state;
}
inline void wait_on(Queue& queue, std::shared_ptr<EventState> state) {
  queue.refuse_in_capture();
  if (state && !state->query()) queue.push([state] { state->wait(); }, false);
}

}  // namespace emulated
