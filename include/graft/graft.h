// graft.h — the whole public interface of the runtime. Kernel authors also include their backend's header (cpu.h), and
// applications that generate images diffusion.h.
#ifndef GRAFT_GRAFT_H
#define GRAFT_GRAFT_H

#include "graft/base.h"
#include "graft/context.h"
#include "graft/device.h"
#include "graft/dtype.h"
#include "graft/extension.h"
#include "graft/fusion.h"
#include "graft/graph.h"
#include "graft/kernel.h"
#include "graft/op.h"
#include "graft/plan.h"
#include "graft/plugin.h"
#include "graft/serialize.h"
#include "graft/status.h"
#include "graft/tensor.h"
#include "graft/transfer.h"
#include "graft/versioned.h"

#endif
