#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace encore {
namespace {

constexpr size_t kMaxShown = 60;  // bytes of a text that messages repeat

std::string at(const std::string& name, int line, const std::string& message) {
  return line > 0 ? name + ":" + std::to_string(line) + ": " + message : name + ": " + message;
}

// Thrown by the handler to leave yaml-cpp's parser; caught in parse_yaml.
class Refused : public std::runtime_error {
 public:
  Refused(int refused_line, const std::string& message)
      : std::runtime_error(message), line(refused_line) {}
  int line;
};

// Builds the tree from yaml-cpp's events. Its own document builder would expand aliases and merge
// duplicate keys silently.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    throw Refused(mark.line + 1, "anchors (&name) are not supported; repeat the value");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused(mark.line + 1, "aliases (*name) are not supported; repeat the value");
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add(make(mark, YamlNode::Kind::kNull));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_tag(mark, tag);
    YamlNode node = make(mark, YamlNode::Kind::kScalar);
    node.quoted = tag == "!";
    node.text = value;
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(make(mark, YamlNode::Kind::kList));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(make(mark, YamlNode::Kind::kMap));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
  };

  YamlNode make(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (++num_nodes_ > kMaxYamlNodes) {
      throw Refused(mark.line + 1,
                    "more than " + std::to_string(kMaxYamlNodes) + " values; the limit is for all");
    }
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refused(mark.line + 1, "tag " + quoted_for_message(tag) + " is not supported; remove it");
  }

  void open(YamlNode node) {
    if (open_.size() >= static_cast<size_t>(kMaxYamlDepth)) {
      throw Refused(node.line, "nested deeper than " + std::to_string(kMaxYamlDepth) + " levels");
    }
    open_.push_back({std::move(node), {}, false});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      check_key(parent.node, node);
      parent.key = std::move(node);
      parent.has_key = true;
    } else {
      parent.node.entries.push_back({std::move(parent.key), std::move(node)});
      parent.has_key = false;
    }
  }

  static void check_key(const YamlNode& map, const YamlNode& key) {
    if (key.kind != YamlNode::Kind::kScalar) {
      throw Refused(key.line, "a key must be a plain word");
    }
    for (const auto& [earlier, value] : map.entries) {
      if (earlier.text == key.text) {
        throw Refused(key.line, "key " + quoted_for_message(key.text) +
                                    " is written twice; the first is on line " +
                                    std::to_string(earlier.line));
      }
    }
  }

  YamlNode root_;
  std::vector<Open> open_;
  size_t num_nodes_ = 0;
};

}  // namespace

std::string quoted_for_message(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    const bool control = (c >= 0 && c < ' ') || c == 127;
    out += control ? '?' : c;
  }
  return out + (text.size() > kMaxShown ? "...\"" : "\"");
}

Result<YamlNode> parse_yaml(std::string_view text, const std::string& name) {
  if (text.size() > kMaxConfigBytes) {
    return invalid_argument(name + " is " + std::to_string(text.size()) +
                            " bytes; a configuration file may have at most " +
                            std::to_string(kMaxConfigBytes));
  }
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    YamlNode root = builder.take();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      const int line = second.take().line;
      return invalid_argument(
          at(name, line, "a second document (---) starts here; a file holds one configuration"));
    }
    return root;
  } catch (const Refused& refused) {
    return invalid_argument(at(name, refused.line, refused.what()));
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 0 : error.mark.line + 1;
    return invalid_argument(at(name, line, "not valid YAML: " + error.msg));
  } catch (const std::exception& error) {
    return invalid_argument(at(name, 0, std::string("not valid YAML: ") + error.what()));
  }
}

}  // namespace encore
