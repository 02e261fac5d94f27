# SPDX-License-Identifier: Apache-2.0
# A rank-1 filter over time; its state is kept between runs.

graph main(%x: f32[1,3]) -> %y {
  %feature = const f32[2,3] gaussian(0, 0.4)
  %time = const f32[2,4] gaussian(0, 0.4)
  %memory: f32[1,8] variable
  %y = Svdf(%x, %feature, %time, none, %memory) {rank: 1}
}
