// render: reads lines of JSON, {"template", "variables", "date"}, and answers each with a line of what
// compare_chat_templates.py expects.

#include <array>
#include <gradus/chat/chat_template.hpp>
#include <gradus/io/json.hpp>
#include <iostream>
#include <string>

namespace gr = gradus;

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::ordered_json answer;
    try {
      const gr::template_value input = gr::parse_template_value(line, "the line");
      const auto text_of = [&](const char* key) { return input.dictionary()->find(gr::template_value(key))->text(); };
      const gr::rendered_chat chat =
          gr::chat_template(text_of("template"))
              .render(*input.dictionary()->find(gr::template_value("variables")), text_of("date"));
      answer = {{"text", chat.text}, {"generation", chat.generated}, {"hides", chat.hides_generated}};
    } catch (const gr::chat_template_error& e) {
      constexpr std::array kinds{"parse", "raise", "refused", "limit"};
      answer = {{"error", e.what()}, {"kind", kinds.at(static_cast<std::size_t>(e.reason()))}};
    }
    std::cout << answer.dump() << std::endl;
  }
}
