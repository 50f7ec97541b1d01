// recording.h — the work of one plan as a list of commands, and the graph that replays it.
#ifndef GRAFT_BACKENDS_CUDA_RECORDING_H
#define GRAFT_BACKENDS_CUDA_RECORDING_H

#include "backends/cuda/device.h"
#include "backends/cuda/function.h"
#include "src/base/arena.h"

enum { GRAFT_CUDA_MAX_FAULTS = 64 };

typedef enum graft_cuda_command_kind { GRAFT_CUDA_LAUNCH, GRAFT_CUDA_CALL, GRAFT_CUDA_FILL } graft_cuda_command_kind;

typedef struct graft_cuda_fill {
  CUdeviceptr target;
  size_t bytes;
  uint64_t value;
} graft_cuda_fill;

typedef struct graft_cuda_command {
  graft_cuda_command_kind kind;
  CUfunction function;  // of a launch
  uint32_t grid[3], block[3], shared_bytes;
  graft_status (*run)(const void *args, void *stream, graft_error *error);  // of a call
  void *args;
  size_t args_bytes, key_bytes;  // equal keys of equal commands do the same
  uint32_t weight;               // how long it takes, as the first run that could be cancelled saw it
} graft_cuda_command;

struct graft_encoder {
  graft_recording *recording;
  uint32_t step;
};

// The weight of commands that may be on the stream before a run that may be cancelled looks back: about 10 ms.
enum { GRAFT_CUDA_MOST_IN_FLIGHT = 32 };

struct graft_recording {
  graft_cuda_device *device;
  graft_encoder encoder;
  graft_arena arena;  // arguments of commands
  graft_cuda_command *commands;
  uint32_t n_commands, capacity;
  // Fault records, in pinned memory that the device sees; NULL: none.
  graft_cuda_fault *faults;
  graft_status (*reports[GRAFT_CUDA_MAX_FAULTS])(const graft_cuda_fault *fault, graft_error *error);
  uint32_t fault_steps[GRAFT_CUDA_MAX_FAULTS];
  uint32_t n_faults;
  // Replay.
  bool is_capture_safe;
  bool is_bound;    // its graph is of no use without it
  bool is_warm;     // has run once, so that whatever is set up late is set up
  bool is_weighed;  // commands have weights
  bool has_capture_failed;
  CUgraphExec graph;
  double seconds;  // that the last run of all commands took
  uint32_t n_steps, n_begun;
  uint32_t first_command[];  // of each step, and one past the last
};

// Puts commands on the stream, without waiting.
graft_status graft_cuda_issue(graft_recording *recording, uint32_t first_command, uint32_t end_command,
                              graft_error *error);

#endif
