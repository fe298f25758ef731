// The rules G, one function each; graph_rules.cpp gives them their numbers.
#pragma once

#include "encore/status.h"
#include "graph_rig.h"

namespace encore::check {

// bucket_rules.cpp
Status buckets_are_those_asked_for(Rig& rig);
Status capture_reports_add_up(Rig& rig);
Status smallest_bucket_is_taken(Rig& rig);
Status what_no_bucket_holds_is_refused(Rig& rig);
Status without_padding_sizes_are_exact(Rig& rig);

// replay_rules.cpp
Status decode_graphs_at_bucket_edges(Rig& rig);
Status prefill_graphs_at_bucket_edges(Rig& rig);
Status any_number_of_requests_in_a_prefill_graph(Rig& rig);
Status any_cached_prefix_in_a_prefill_graph(Rig& rig);
Status pages_move_between_steps(Rig& rig);
Status lengths_shrink_and_grow_in_a_bucket(Rig& rig);
Status requests_leave_and_join(Rig& rig);

// memory_rules.cpp
Status decode_padding_writes_no_live_page(Rig& rig);
Status prefill_padding_writes_no_live_page(Rig& rig);
Status poison_changes_nothing(Rig& rig);
Status guards_stay_intact(Rig& rig);
Status replays_leave_nothing_behind(Rig& rig);
Status larger_model_comes_and_goes(Rig& rig);
Status freed_runners_leave_no_memory(Rig& rig);
Status reports_name_what_is_allocated(Rig& rig);

// capture_rules.cpp
Status failed_bucket_costs_that_bucket(Rig& rig);
Status capture_order_does_not_matter(Rig& rig);
Status lazy_capture_equals_eager_capture(Rig& rig);
Status runners_captured_side_by_side(Rig& rig);

}  // namespace encore::check
