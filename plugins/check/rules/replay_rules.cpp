// Rules G on what a replay computes: whatever a graph was captured with, and whatever it ran
// before, each step gives what the eager runner gives. Known faults G2 and G3.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "graph_rule_bodies.h"

namespace encore::check {
namespace {

std::vector<PrefillMode> modes_of(const Rig& rig) {
  std::vector<PrefillMode> modes;
  if (rig.session.has(kCapabilityPrefillFull)) modes.push_back(PrefillMode::kFull);
  if (rig.session.has(kCapabilityPrefillBreakable)) modes.push_back(PrefillMode::kBreakable);
  return modes;
}

std::string mode_name(PrefillMode mode) {
  return mode == PrefillMode::kFull ? "full prefill, " : "breakable prefill, ";
}

// Runs `body` with prefill graphs of each mode that the device has, and no decode graphs.
template <typename Body>
Status for_each_mode(Rig& rig, const Body& body) {
  const std::vector<PrefillMode> modes = modes_of(rig);
  if (modes.empty()) return unimplemented("the device has no prefill graphs");
  for (const PrefillMode mode : modes) {
    RunnerSetOptions options = graph_options();
    options.decode = false;
    options.capture.prefill_mode = mode;
    ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, options));
    ENCORE_RETURN_IF_ERROR(body(*steps, mode_name(mode)));
  }
  return {};
}

RunnerSetOptions decode_options() {
  RunnerSetOptions options = graph_options();
  options.prefill = false;
  return options;
}

// One step of `fresh` tokens after `cached` ones, all of them tokens of `request`.
Status prefill_once(MirroredSteps& steps, size_t request, int32_t cached, int32_t fresh,
                    const std::string& what) {
  steps.rewind(request, cached);
  const MirroredSteps::Item item{request, fresh};
  return steps.step(steps.prefill(), {&item, 1}, what);
}

}  // namespace

Status decode_graphs_at_bucket_edges(Rig& rig) {
  ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, decode_options()));
  std::vector<size_t> requests;
  for (int32_t i = 0; i < 12; ++i) {
    ENCORE_ASSIGN_OR_RETURN(requests.emplace_back(), steps->add(32 + 9 * i, 9 * i));
  }
  for (size_t count = 1; count <= requests.size(); ++count) {
    ENCORE_RETURN_IF_ERROR(steps->decode(std::span(requests).first(count),
                                         std::to_string(count) + " decodes in one step"));
  }
  return {};
}

Status prefill_graphs_at_bucket_edges(Rig& rig) {
  return for_each_mode(rig, [](MirroredSteps& steps, const std::string& mode) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const size_t request, steps.add(128, 0));
    for (const int32_t count : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128}) {
      ENCORE_RETURN_IF_ERROR(
          prefill_once(steps, request, 0, count, mode + "a prompt of " + std::to_string(count)));
    }
    return {};
  });
}

Status any_number_of_requests_in_a_prefill_graph(Rig& rig) {
  return for_each_mode(rig, [](MirroredSteps& steps, const std::string& mode) -> Status {
    constexpr int32_t kTokens = 60;  // always the bucket of 64
    std::vector<size_t> requests;
    for (int32_t i = 0; i < 12; ++i) {
      ENCORE_ASSIGN_OR_RETURN(requests.emplace_back(), steps.add(110, (17 * i + 5) % 50));
    }
    for (const int32_t count : {1, 12, 2, 7, 11, 3, 9}) {
      std::vector<MirroredSteps::Item> items;
      int32_t left = kTokens;
      for (int32_t i = 0; i < count; ++i) {
        // Lengths that differ, with prefixes that differ: the key is the token count alone.
        const int32_t fresh = i + 1 == count ? left : std::max(1, left / (count - i) - 1);
        steps.rewind(requests[static_cast<size_t>(i)], (17 * i + 5) % 50);
        items.push_back({requests[static_cast<size_t>(i)], fresh});
        left -= fresh;
      }
      ENCORE_RETURN_IF_ERROR(
          steps.step(steps.prefill(), items,
                     mode + std::to_string(count) + " requests with 60 tokens together"));
    }
    return {};
  });
}

Status any_cached_prefix_in_a_prefill_graph(Rig& rig) {
  return for_each_mode(rig, [](MirroredSteps& steps, const std::string& mode) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const size_t request, steps.add(320, 300));
    for (const int32_t cached : {0, 1, 15, 16, 17, 100, 250, 31, 200, 5, 300}) {
      for (const int32_t fresh : {1, 20}) {
        ENCORE_RETURN_IF_ERROR(
            prefill_once(steps, request, cached, fresh,
                         mode + std::to_string(fresh) + " tokens after " + std::to_string(cached)));
      }
    }
    return {};
  });
}

Status pages_move_between_steps(Rig& rig) {
  ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, graph_options()));
  ENCORE_ASSIGN_OR_RETURN(const size_t request, steps->add(120, 60));
  const std::vector<size_t> live = {request};
  for (int32_t move = 0; move < 4; ++move) {
    ENCORE_RETURN_IF_ERROR(steps->decode(live, "before move " + std::to_string(move)));
    // To pages at the other end of the cache and back; the request keeps its order of pages.
    std::vector<int32_t>& pages = steps->request(request).pages;
    std::vector<PageCopy> copies;
    for (size_t i = 0; i < pages.size(); ++i) {
      const int32_t target = static_cast<int32_t>(i) + 10 * move;
      copies.push_back({pages[i], target});
      pages[i] = target;
    }
    ENCORE_RETURN_IF_ERROR(steps->graphs().kv->copy_pages(copies));
    const std::string what = "after its pages were copied, " + std::to_string(move);
    ENCORE_RETURN_IF_ERROR(steps->decode(live, what));
    const MirroredSteps::Item chunk{request, 4};
    ENCORE_RETURN_IF_ERROR(steps->step(steps->prefill(), {&chunk, 1}, what + ", by prefill"));
  }
  return {};
}

Status lengths_shrink_and_grow_in_a_bucket(Rig& rig) {
  ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, graph_options()));
  ENCORE_ASSIGN_OR_RETURN(const size_t request, steps->add(320, 319));
  const std::vector<size_t> live = {request};
  for (int32_t round = 0; round < 3; ++round) {
    for (const int32_t length : {300, 2, 160, 1, 319}) {
      steps->rewind(request, length);
      ENCORE_RETURN_IF_ERROR(steps->decode(live, "one decode at length " + std::to_string(length)));
    }
    for (const int32_t count : {128, 65, 127, 66}) {
      ENCORE_RETURN_IF_ERROR(prefill_once(*steps, request, count % 2 == 0 ? 0 : 100, count,
                                          "a prompt of " + std::to_string(count)));
    }
  }
  return {};
}

Status requests_leave_and_join(Rig& rig) {
  RunnerSetOptions options = decode_options();
  options.capture.decode_buckets = {8, 12};
  ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, options));
  std::vector<size_t> live;
  const auto join = [&](int32_t count) -> Status {
    for (int32_t i = 0; i < count; ++i) {
      const int32_t cached = 5 + 13 * i;
      ENCORE_ASSIGN_OR_RETURN(live.emplace_back(), steps->add(cached + 40, cached));
    }
    return {};
  };
  ENCORE_RETURN_IF_ERROR(join(8));
  // Batches of 8, 5, 2, then 7 and 4, then 8: all in the bucket of 8.
  for (const auto& [size, joining] : {std::pair{size_t{8}, 0},
                                      {size_t{5}, 0},
                                      {size_t{2}, 0},
                                      {size_t{7}, 5},
                                      {size_t{4}, 0},
                                      {size_t{8}, 4}}) {
    ENCORE_RETURN_IF_ERROR(join(joining));
    // The oldest leave: the row of each of the others changes.
    while (live.size() > size) {
      steps->finish(live.front());
      live.erase(live.begin());
    }
    for (int32_t step = 0; step < 3; ++step) {
      ENCORE_RETURN_IF_ERROR(steps->decode(
          live, "a batch of " + std::to_string(size) + ", step " + std::to_string(step)));
    }
  }
  return {};
}

}  // namespace encore::check
