// query.h — asking kernels about a node, with an eye on callbacks that ask back. Not installed.
#ifndef GRAFT_SRC_RUN_QUERY_H
#define GRAFT_SRC_RUN_QUERY_H

#include <pthread.h>

#include "graft/context.h"

// A callback that is running: which thread asks about which operator.
typedef struct graft_query_frame {
  struct graft_query_frame *next;
  pthread_t thread;
  const graft_op_def *op;
} graft_query_frame;

// The callbacks that are running for one device.
typedef struct graft_queries {
  pthread_mutex_t mutex;
  graft_query_frame *frames;
} graft_queries;

// Whether |kernel| is right for |node|: features of the device (|features|) and what the kernel's own `supports`
// says. Thread-safe.
bool graft_query_supports(const graft_kernel_def *kernel, const graft_node_info *node, uint64_t features,
                          graft_reason *why);
// What the kernel's own `preferred` says. Thread-safe.
bool graft_query_prefers(const graft_kernel_def *kernel, const graft_node_info *node, graft_reason *why);

#endif
