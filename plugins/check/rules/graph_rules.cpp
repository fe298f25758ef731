// Rules G: buckets, padding, replay, capture. The table of them; the rules themselves are in
// bucket_rules.cpp, replay_rules.cpp, memory_rules.cpp and capture_rules.cpp.
#include "graph_rule_bodies.h"
#include "rule.h"

namespace encore::check {

std::span<const Rule> graph_rules() {
  static constexpr Rule kRules[] = {
      {"G01", "Buckets are those asked for, each once, largest first, the maximum among them",
       on_rig<buckets_are_those_asked_for>},
      {"G02", "Capture reports add up: sizes, nodes, launches, times",
       on_rig<capture_reports_add_up>},
      {"G03", "A batch takes the smallest bucket that holds it", on_rig<smallest_bucket_is_taken>},
      {"G04", "A step that no bucket holds is refused with its reason",
       on_rig<what_no_bucket_holds_is_refused>},
      {"G05", "Without padding a graph serves its exact size only",
       on_rig<without_padding_sizes_are_exact>},
      {"G06", "Decode graphs are right at the edges of their buckets",
       on_rig<decode_graphs_at_bucket_edges>},
      {"G07", "Prefill graphs are right at the edges of their buckets",
       on_rig<prefill_graphs_at_bucket_edges>},
      {"G08", "A prefill graph serves any number of requests with its number of tokens",
       on_rig<any_number_of_requests_in_a_prefill_graph>},
      {"G09", "A prefill graph serves any cached prefix",
       on_rig<any_cached_prefix_in_a_prefill_graph>},
      {"G10", "Pages may be copied elsewhere between steps", on_rig<pages_move_between_steps>},
      {"G11", "Lengths may shrink and grow from step to step in one bucket",
       on_rig<lengths_shrink_and_grow_in_a_bucket>},
      {"G12", "Requests may leave and join from step to step", on_rig<requests_leave_and_join>},
      {"G13", "A decode step's padding writes no page of a request",
       on_rig<decode_padding_writes_no_live_page>},
      {"G14", "A prefill step's padding writes no page of a request",
       on_rig<prefill_padding_writes_no_live_page>},
      {"G15", "Poison changes no result", on_rig<poison_changes_nothing>},
      {"G16", "Guards stay intact", on_rig<guards_stay_intact>},
      {"G17", "10,000 replays leave nothing behind", on_rig<replays_leave_nothing_behind>, 180},
      {"G18", "A larger model beside it changes nothing", on_rig<larger_model_comes_and_goes>},
      {"G19", "A bucket that cannot be captured costs that bucket alone",
       on_rig<failed_bucket_costs_that_bucket>},
      {"G20", "The order of captures does not matter", on_rig<capture_order_does_not_matter>},
      {"G21", "A bucket captured later is like one captured at once",
       on_rig<lazy_capture_equals_eager_capture>},
      {"G22", "A runner may be captured twice, side by side",
       on_rig<runners_captured_side_by_side>},
      {"G23", "Freed runners leave no memory behind", on_rig<freed_runners_leave_no_memory>, 120},
      {"G24", "Reports name no more memory than was allocated",
       on_rig<reports_name_what_is_allocated>},
  };
  return kRules;
}

}  // namespace encore::check
