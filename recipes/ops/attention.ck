# SPDX-License-Identifier: Apache-2.0
# One token of a decoder layer, with caches of keys and values that stay between runs (circle only).

graph main(%x: f32[1,1,8]) -> %y {
  %wq = const f32[8,8] gaussian(0, 0.4)
  %wk = const f32[8,8] gaussian(0, 0.4)
  %wv = const f32[8,8] gaussian(0, 0.4)
  %wo = const f32[8,8] gaussian(0, 0.4)
  %cos = const f32[1,1,4] gaussian(0, 1)
  %sin = const f32[1,1,4] gaussian(0, 1)
  %mask = const f32[1,1,1,5] [0.0, 0.0, 0.0, -inf, -inf]
  %k_cache: f32[1,5,2,4] variable
  %v_cache: f32[1,5,2,4] variable
  %position = const i32[1] [2]
  %y = Attention(%x, %wq, %wk, %wv, %wo, %cos, %sin, %mask, %k_cache, %v_cache, %position)
}
