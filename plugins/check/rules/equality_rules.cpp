// Rules R: what runners compute. Here are their numbers; each file of bodies is about one idea.
#include <array>

#include "equality_rule_bodies.h"
#include "rule.h"

namespace encore::check {
namespace {

constexpr std::array kRules = {
    Rule{"R01", "Eager steps compute the reference's logits", equality<eager_equals_reference>},
    Rule{"R02", "Eager steps compute the reference's logits for each family of models",
         equality<families_equal_reference>},
    Rule{"R03", "A tied head is the embedding", equality<tied_head_is_the_embedding>},
    Rule{"R04", "Both RoPE styles turn the pairs that they name",
         equality<rope_styles_are_one_rotation>},
    Rule{"R05", "The RoPE attention scale multiplies queries and keys",
         equality<rope_scale_multiplies_scores>},
    Rule{"R06", "Weights of each type that is taken give the reference's logits",
         equality<weight_types_equal_reference>},
    Rule{"R07",
         "A KV cache of each type and page size that is offered gives the reference's logits",
         equality<cache_types_equal_reference>},
    Rule{"R08", "A long prompt gives the reference's logits",
         equality<long_prompts_equal_reference>},
    Rule{"R09", "How a request's tokens are cut into steps changes nothing",
         equality<cuts_do_not_matter>},
    Rule{"R10", "A request's results depend neither on its row nor on other requests",
         equality<neighbours_do_not_matter>},
    Rule{"R11", "A full prefill graph computes what the eager runner does",
         equality<full_prefill_equals_eager>},
    Rule{"R12", "A breakable prefill graph computes what the eager runner does",
         equality<breakable_prefill_equals_eager>},
    Rule{"R13", "A decode graph computes what the eager runner does",
         equality<decode_graph_equals_eager>},
    Rule{"R14", "Greedy sampling takes the highest logit, and of equal ones the lowest id",
         equality<greedy_takes_the_highest>},
    Rule{"R15", "Greedy text is the reference's, but where two tokens nearly tie",
         equality<greedy_text_equals_reference>},
    Rule{"R16", "No temperature, top_p, top_k or min_p is too small or too large",
         equality<no_temperature_is_too_small>},
    Rule{"R17", "A draw depends on seed and position, and on no row or neighbour",
         equality<stream_is_seed_and_position>},
    Rule{"R18", "Draws follow the probabilities at their temperature",
         equality<draws_follow_probabilities>},
    Rule{"R19", "top_k, top_p and min_p keep the candidates that they say",
         equality<filters_keep_what_they_say>},
    Rule{"R20", "Log-probabilities are those of the unmodified logits",
         equality<logprobs_are_of_the_raw_logits>},
    Rule{"R21", "Biases are added to their row's logits", equality<biases_are_added>},
    Rule{"R22", "Penalties are applied to tokens of prompt and reply as they say",
         equality<penalties_are_applied>},
    Rule{"R23", "No id from num_valid_tokens on is sampled", equality<valid_tokens_are_a_limit>},
    Rule{"R24", "A negative id is the token which that row of the step before sampled",
         equality<negative_ids_are_sampled_tokens>},
    Rule{"R25", "A token that the host has not seen counts for penalties",
         equality<pending_tokens_count_as_history>},
    Rule{"R26", "A row of NaN fails and leaves other rows alone", equality<nan_row_fails_alone>},
    Rule{"R27", "NaN left in freed pages harms nobody", equality<nan_leaves_nothing_behind>},
    Rule{"R28", "A row whose tokens are all banned fails and leaves other rows alone",
         equality<banned_row_fails_alone>},
    Rule{"R29", "Weights that cannot be mapped are read", equality<unmapped_weights_are_read>},
    Rule{"R30", "Observers see each layer's output, in order", equality<observers_see_layers>},
    Rule{"R31", "A request may use pages that another one fills in the same step",
         equality<pages_are_shared_at_once>},
};

}  // namespace

std::span<const Rule> equality_rules() { return kRules; }

}  // namespace encore::check
