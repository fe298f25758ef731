// The rules R, one function each; equality_rules.cpp gives them their numbers.
#pragma once

#include "encore/status.h"
#include "equality_rig.h"

namespace encore::check {

// model_rules.cpp: what is computed
Status eager_equals_reference(const EqualityRun& run);
Status families_equal_reference(const EqualityRun& run);
Status tied_head_is_the_embedding(const EqualityRun& run);
Status rope_styles_are_one_rotation(const EqualityRun& run);
Status rope_scale_multiplies_scores(const EqualityRun& run);
Status long_prompts_equal_reference(const EqualityRun& run);

// storage_rules.cpp: how weights, keys and values are stored
Status weight_types_equal_reference(const EqualityRun& run);
Status cache_types_equal_reference(const EqualityRun& run);
Status unmapped_weights_are_read(const EqualityRun& run);

// step_rules.cpp: how tokens and requests share steps
Status cuts_do_not_matter(const EqualityRun& run);
Status neighbours_do_not_matter(const EqualityRun& run);

// sharing_rules.cpp
Status pages_are_shared_at_once(const EqualityRun& run);

// mode_rules.cpp: graphs against eager steps
Status full_prefill_equals_eager(const EqualityRun& run);
Status breakable_prefill_equals_eager(const EqualityRun& run);
Status decode_graph_equals_eager(const EqualityRun& run);

// greedy_rules.cpp
Status greedy_takes_the_highest(const EqualityRun& run);
Status greedy_text_equals_reference(const EqualityRun& run);
Status no_temperature_is_too_small(const EqualityRun& run);

// draw_rules.cpp
Status stream_is_seed_and_position(const EqualityRun& run);
Status draws_follow_probabilities(const EqualityRun& run);
Status filters_keep_what_they_say(const EqualityRun& run);

// row_rules.cpp: what a row asks for beyond a token
Status logprobs_are_of_the_raw_logits(const EqualityRun& run);
Status biases_are_added(const EqualityRun& run);
Status penalties_are_applied(const EqualityRun& run);
Status valid_tokens_are_a_limit(const EqualityRun& run);

// pending_rules.cpp: tokens that the host has not seen
Status negative_ids_are_sampled_tokens(const EqualityRun& run);
Status pending_tokens_count_as_history(const EqualityRun& run);

// failure_rules.cpp: rows without a token
Status nan_row_fails_alone(const EqualityRun& run);
Status nan_leaves_nothing_behind(const EqualityRun& run);
Status banned_row_fails_alone(const EqualityRun& run);

// observer_rules.cpp
Status observers_see_layers(const EqualityRun& run);

}  // namespace encore::check
