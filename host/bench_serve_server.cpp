#include "bench_serve_server.h"

#include <nlohmann/json.hpp>

namespace encore {
namespace {

using Json = nlohmann::json;

// The models of {"data": [{"id": ..., "max_model_len": ...}]}; none if it is not of that shape.
std::vector<RemoteModel> models_in(const std::string& body) {
  std::vector<RemoteModel> models;
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return models;
  for (const Json& card : json["data"]) {
    if (!card.is_object() || !card.contains("id") || !card["id"].is_string()) continue;
    RemoteModel model;
    model.name = card["id"].get<std::string>();
    const auto length = card.find("max_model_len");
    if (length != card.end() && length->is_number_integer()) {
      model.max_tokens = length->get<int32_t>();
    }
    models.push_back(std::move(model));
  }
  return models;
}

Status refusal(const HttpAnswer& answer) {
  std::string message = "/v1/models was answered with HTTP " + std::to_string(answer.status);
  if (answer.status == 401 || answer.status == 403) message += "; give the key by --api-key";
  if (answer.status == 404) message += "; is that the server's base URL?";
  if (answer.status == 503) message += "; wait until /ready says 200";
  if (!answer.body.empty()) message += ": " + answer.body.substr(0, 300);
  return unavailable(message);
}

}  // namespace

Result<RemoteModel> find_model(LoadClient& client, const std::string& name) {
  ENCORE_ASSIGN_OR_RETURN(const HttpAnswer answer, client.fetch("/v1/models", {}));
  if (answer.status != 200) return refusal(answer);
  const std::vector<RemoteModel> models = models_in(answer.body);
  if (models.empty()) return not_found("the server lists no model");
  std::string names;
  for (const RemoteModel& model : models) {
    if (name.empty() || model.name == name) return model;
    names += names.empty() ? "" : ", ";
    names += model.name;
  }
  return not_found("the server has no model \"" + name + "\"; it has " + names);
}

Result<std::optional<std::vector<int32_t>>> tokenize(LoadClient& client, const std::string& model,
                                                     const std::string& text) {
  const Json body = {{"model", model}, {"prompt", text}, {"add_special_tokens", false}};
  ENCORE_ASSIGN_OR_RETURN(
      const HttpAnswer answer,
      client.fetch("/tokenize", body.dump(-1, ' ', false, Json::error_handler_t::replace)));
  std::optional<std::vector<int32_t>> ids;
  const Json json = Json::parse(answer.body, nullptr, false);
  if (answer.status != 200 || !json.is_object()) return ids;
  const auto tokens = json.find("tokens");
  if (tokens == json.end() || !tokens->is_array()) return ids;
  ids.emplace();
  ids->reserve(tokens->size());
  for (const Json& token : *tokens) {
    if (token.is_number_integer()) ids->push_back(token.get<int32_t>());
  }
  return ids;
}

}  // namespace encore
