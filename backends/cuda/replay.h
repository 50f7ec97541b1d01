// replay.h — a whole plan as one CUDA graph.
//
// The first run of a recording is an ordinary one, so that whatever libraries set up late is set up. The second one
// captures the commands and launches the graph; later ones launch it. Addresses and the stream are part of a recording
// and never change. When a plan is destroyed its graph is kept for a plan with exactly the same commands.
#ifndef GRAFT_BACKENDS_CUDA_REPLAY_H
#define GRAFT_BACKENDS_CUDA_REPLAY_H

#include "backends/cuda/recording.h"

// Whether the whole recording may be run as a graph now.
bool graft_cuda_can_replay(const graft_recording *recording);

// Captures where needed, and launches. Nothing of a capture that fails has run: it is noted in the device's counts and
// in the log, and the recording is dispatched in the ordinary way from then on.
graft_status graft_cuda_replay(graft_recording *recording, graft_error *error);

// Keeps the graph of a recording that is about to be destroyed; at most GRAFT_CUDA_MAX_RETIRED, the oldest goes.
void graft_cuda_retire(graft_recording *recording);

// Gives a new recording the kept graph of one with the same commands, if there is one.
void graft_cuda_retired_take(graft_recording *recording);

// Frees all kept graphs; with the context current.
void graft_cuda_retired_clear(graft_cuda_device *device);

#endif
