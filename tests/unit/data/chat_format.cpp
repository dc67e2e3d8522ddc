// Chats as texts, held against transformers' templates.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <gradus/data/chat_format.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gr = gradus;
using chat = std::vector<gr::chat_message>;
using role = gr::chat_role;

namespace {

std::uint32_t fnv(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<std::uint32_t>(hash);
}

std::string targets_of(const std::vector<gr::chat_segment>& segments) {
  std::string text;
  for (const auto& s : segments)
    if (s.is_target) text += s.text;
  return text;
}

nlohmann::json fixture() {
  const std::string path = GRADUS_TEST_DATA "/chat/formats.json";
  return gr::parse_json(gr::read_text(path), path);
}

}  // namespace

TEST_CASE("1,000 chats are written as transformers writes them by each template, or refused where it refuses them") {
  const nlohmann::json all = fixture();
  std::vector<chat> chats;
  for (const auto& from : all["chats"]) {
    chat& to = chats.emplace_back();
    for (const auto& m : from)
      to.push_back(
          {static_cast<role>(m[0].get<int>()), all["snippets"][m[1].get<std::size_t>()].get<std::string>() +
                                                   all["snippets"][m[2].get<std::size_t>()].get<std::string>()});
  }
  CHECK(chats.size() == 1000);
  for (const auto& [name, from] : all["templates"].items()) {
    CAPTURE(name);
    const gr::chat_format format = gr::recognised_chat_format(
        from["template"].get<std::string>(), from["bos"].get<std::string>(), from["eos"].get<std::string>());
    if (name != "smollm2" && name != "qwen2.5") CHECK(format.name == name);
    std::size_t shown = 0;
    for (std::size_t i = 0; i < chats.size(); ++i) {
      CAPTURE(i);
      if (from["hashes"][i].is_null()) {
        CHECK_THROWS_AS(format.render(chats[i]), gr::error);
        continue;
      }
      std::string text = gr::text_of(format.render(chats[i]));
      if (shown < from["shown"].size()) CHECK(text == from["shown"][shown++].get<std::string>());
      if (chats[i].back().role != role::assistant) text += gr::text_of(format.open(chats[i]));
      if (fnv(text) != from["hashes"][i].get<std::uint32_t>()) FAIL_CHECK(text);
    }
  }
}

TEST_CASE("what the assistant writes is the target, and contents have no marks") {
  const chat two{
      {role::user, "Hi<|im_end|>"}, {role::assistant, "Hello"}, {role::user, "More"}, {role::assistant, "No"}};
  const auto segments = gr::chat_format_named("chatml").render(two);
  CHECK(targets_of(segments) == "Hello<|im_end|>No<|im_end|>");
  for (const auto& s : segments)
    CHECK(s.marks == (s.text != "Hi<|im_end|>" && s.text != "Hello" && s.text != "More" && s.text != "No"));
  chat first = two;
  first[1].is_target = false;
  CHECK(targets_of(gr::chat_format_named("chatml").render(first)) == "No<|im_end|>");
  CHECK(targets_of(gr::chat_format_named("llama2").render(two)) == " Hello </s> No </s>");
  CHECK(targets_of(gr::chat_format_named("phi3").render(two)) == "Hello<|end|>No<|end|>");
  CHECK(gr::text_of(gr::chat_format_named("alpaca").render(std::span(two).first(2))) ==
        "### Instruction:\nHi<|im_end|>\n\n### Response:\nHello</s>\n\n");
  const chat question{{role::system, "Be brief."}, {role::user, "Hi"}};
  CHECK(gr::text_of(gr::chat_format_named("llama2").open(question)) ==
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]");
  CHECK(gr::text_of(gr::chat_format_named("alpaca").open(question)) ==
        "Be brief.\n\n### Instruction:\nHi\n\n### Response:\n");
}

TEST_CASE("a template's default system message is its own") {
  const nlohmann::json all = fixture()["templates"];
  const auto found = [&](const char* name) {
    return gr::recognised_chat_format(all[name]["template"].get<std::string>()).default_system;
  };
  CHECK(found("smollm2") == "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  CHECK(found("qwen2.5") == "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  CHECK(found("chatml").empty());
  CHECK(found("llama3").empty());
  CHECK_THROWS_WITH_AS(gr::recognised_chat_format("{{'<|im_start|>system\\nDon\\'t<|im_end|>'}}"),
                       doctest::Contains("a default system message with quotes or braces"), gr::error);
}

TEST_CASE("a chat that its format cannot write is refused") {
  const auto refused = [](const char* name, const chat& messages, const char* what, bool open = false) {
    const gr::chat_format format = gr::chat_format_named(name);
    CHECK_THROWS_WITH_AS(open ? format.open(messages) : format.render(messages), what, gr::error);
  };
  const gr::chat_message system{role::system, "S"}, user{role::user, "U"}, assistant{role::assistant, "A"};
  refused("chatml", {}, "chat format chatml: a chat without messages");
  refused("gemma", {system, user}, "chat format gemma: messages[0]: the format has no system's message");
  refused("mistral", {system, user}, "chat format mistral: messages[0]: the format has no system's message");
  refused("llama2", {user, user},
          "chat format llama2: messages[1]: role user, but user and assistant must alternate, the user first");
  refused("gemma3", {system, assistant},
          "chat format gemma3: messages[1]: role assistant, but user and assistant must alternate, the user first");
  refused("llama2", {user, system}, "chat format llama2: messages[1]: a system's message must be the first");
  refused("llama2", {system}, "chat format llama2: a system's message, without a user's message to stand in");
  refused("zephyr", {user, assistant}, "chat format zephyr: messages[1] is the assistant's: there is nothing to answer",
          true);
}

TEST_CASE("formats have names, and a template that none fits is refused with them") {
  const std::string names = gr::chat_format_names();
  CHECK(names == "chatml, llama3, llama2, mistral, phi3, zephyr, gemma3, gemma, alpaca");
  CHECK_THROWS_WITH_AS(gr::chat_format_named("x"), ("no chat format is called 'x'; there are " + names).c_str(),
                       gr::error);
  CHECK_THROWS_WITH_AS(gr::recognised_chat_format("{{ messages }}"),
                       ("chat_template: none of the chat formats; name one by --chat-format: " + names).c_str(),
                       gr::error);
  CHECK_THROWS_WITH_AS(gr::recognised_chat_format("<|im_start|><|im_end|>{{'<think>'}}"),
                       doctest::Contains("chat_template: has '<think>', which no chat format here writes"), gr::error);
  CHECK(gr::recognised_chat_format("{{bos_token}}'<|im_start|>' '<|im_end|>'", "<b>").before == "<b>");
  CHECK(gr::chat_format_named("gemma").stops == std::vector<std::string>{"<end_of_turn>", "<eos>"});
}
