// flow_match_euler.h — Euler steps along a rectified flow, with the noise levels that diffusers'
// FlowMatchEulerDiscreteScheduler gives, bit for bit.
//
// A latent at level s is (1 - s) · picture + s · noise, the model's velocity is noise - picture, and a step from level
// s to the next one, s', adds (s' - s) · velocity. Levels for N steps: N numbers from 1 down to 1/N at equal distances
// (in f64, rounded to f32), each shifted by s ← shift · s / (1 + (shift - 1) · s) in f32, then 0.
#ifndef GRAFT_DIFFUSION_SAMPLERS_FLOW_MATCH_EULER_H
#define GRAFT_DIFFUSION_SAMPLERS_FLOW_MATCH_EULER_H

#include "formats/json.h"

typedef struct graft_flow_match_euler_config {
  int32_t n_train_timesteps;  // also the largest number of steps
  double shift;
} graft_flow_match_euler_config;

// Reads scheduler_config.json. Options that would change the levels or the step are refused by name.
// Errors: GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED. Thread-safe.
GRAFT_NODISCARD graft_status graft_flow_match_euler_read(const graft_json *json, graft_error *error,
                                                         graft_flow_match_euler_config *out_config);

// Writes n_steps + 1 levels, strictly decreasing from 1 to 0. 1 ≤ n_steps ≤ n_train_timesteps. Thread-safe.
void graft_flow_match_euler_sigmas(const graft_flow_match_euler_config *config, int32_t n_steps, float *sigmas);

// The time step that stands for level |sigma|: sigma · n_train_timesteps in f32. Thread-safe.
float graft_flow_match_euler_timestep(const graft_flow_match_euler_config *config, float sigma);

// One step in place over |n| elements: x += (sigma_next - sigma) · velocity. Thread-safe.
void graft_flow_match_euler_step(float *x, const float *velocity, size_t n, float sigma, float sigma_next);

#endif
