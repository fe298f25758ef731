# Sources of the lowering, relative to src/: read by its own CMakeLists.txt and by the SDK, which
# installs them.
set(ENCORE_LOWERING_SOURCES
  arena.cpp
  decode_graph_runner.cpp
  eager_runner.cpp
  guarded_memory.cpp
  layer_stack.cpp
  lowered_model.cpp
  model_check.cpp
  parallel_core.cpp
  parallel_kv.cpp
  parallel_model.cpp
  parallel_runner.cpp
  prefill_graph_runner.cpp
  rank_team.cpp
  shard.cpp
  sharded_weights.cpp
  step_context.cpp
  step_runner.cpp
  step_staging.cpp)
