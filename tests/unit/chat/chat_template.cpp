// Chat templates, held against jinja2 as transformers 5.24 sets it up (tests/parity/make_chat_template_fixtures.py).
#include <doctest/doctest.h>

#include <array>
#include <gradus/chat/chat_template.hpp>
#include <gradus/io/text_file.hpp>
#include <set>
#include <string>
#include <vector>

namespace gr = gradus;
using kind = gr::chat_template_error::kind;

namespace {

const std::string folder = GRADUS_TEST_DATA "/chat_templates/";

gr::template_value json(const std::string& name) {
  return gr::parse_template_value(gr::read_text(folder + name), name);
}
const gr::template_value& at(const gr::template_value& of, const std::string& key) {
  const gr::template_value* found = of.dictionary()->find(gr::template_value(key));
  REQUIRE(found != nullptr);
  return *found;
}

std::string write(std::string_view text, const std::string& variables = "{}", std::string_view date = {}) {
  return gr::chat_template(text).render(gr::parse_template_value(variables, "variables"), date).text;
}
/// Why a template is not written: the kind, and the sentence.
std::string problem(std::string_view text) {
  constexpr std::array kinds{"parse: ", "raised: ", "refused: ", "limit: "};
  try {
    write(text);
  } catch (const gr::chat_template_error& e) {
    return std::string(kinds.at(static_cast<std::size_t>(e.reason()))) + e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a corpus of chat templates is written as transformers writes it, and fails where it fails there") {
  const gr::template_value all = json("expected.json"), conversations = json("conversations.json");
  const auto& chats = conversations.sequence()->items;
  CHECK(chats.size() >= 40);
  CHECK(all.dictionary()->items.size() >= 90);
  std::set<std::string> refused;
  for (const auto& item : all.dictionary()->items) {
    const std::string& name = item.first.text();
    CAPTURE(name);
    const std::string text = gr::read_text(folder + name + ".jinja");
    const auto& outcomes = item.second.sequence()->items;
    REQUIRE((outcomes.size() == 1 || outcomes.size() == chats.size()));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      CAPTURE(i);
      const gr::template_value& outcome = outcomes[i];
      const bool fails = outcome.dictionary() != nullptr && outcome.dictionary()->find(gr::template_value("error"));
      try {
        const gr::rendered_chat chat = gr::chat_template(text).render(chats[i], "2024-07-26 12:34:56");
        REQUIRE_FALSE(fails);
        CHECK(chat.text == (outcome.is_text() ? outcome : at(outcome, "text")).text());
        if (outcome.is_text() || chat.hides_generated) continue;
        std::vector<std::pair<std::size_t, std::size_t>> wanted;
        for (const auto& range : at(outcome, "generation").sequence()->items)
          wanted.emplace_back(range.sequence()->items[0].integer(), range.sequence()->items[1].integer());
        CHECK(chat.generated == wanted);
      } catch (const gr::chat_template_error& e) {
        CAPTURE(std::string(e.what()));
        if (fails) continue;
        CHECK(e.reason() == kind::refused);
        refused.insert(name);
      }
    }
  }
  std::string names;
  for (const auto& name : refused) names += name + " ";
  CHECK(names == "filters_texts numbers ");  // the title case of "ß", a division of a large integer
}

TEST_CASE("an error of a chat template names its kind, line and column, and what was wrong") {
  CHECK(problem("ab\n {{ x.y }}") == "raised: line 2, column 7: 'x' is undefined");
  CHECK(problem("{{ raise_exception('Only one ' ~ 'turn') }}") == "raised: line 1, column 19: Only one turn");
  CHECK(problem("{% if x %}") == "parse: line 1, column 11: the template ends before 'endif'");
  CHECK(problem("{% iff x %}") == "parse: line 1, column 4: unknown tag 'iff'");
  CHECK(problem("{{ x|upperr }}") == "parse: line 1, column 13: there is no filter 'upperr'");
  CHECK(problem("{{ 'a }}") == "parse: line 1, column 9: a text has no end");
  CHECK(problem("{{ € }}") == "parse: line 1, column 4: unexpected €");
  CHECK(problem("{{ 2 ** 80 }}") == "refused: line 1, column 6: an integer is larger than 64 bits");
  CHECK(problem("{% include 'secrets' %}") == "refused: line 1, column 4: 'include' is no part of a chat template");
  CHECK(problem("{{ strftime_now('%Y') }}") ==
        "refused: line 1, column 16: the template writes today's date, and none is given");
  CHECK_THROWS_WITH_AS(write("x", "[1]"), "the variables are no dictionary", gr::chat_template_error);
  CHECK_THROWS_WITH_AS(gr::parse_template_value("{\"a\": 1", "chat.json"),
                       "chat.json: is not JSON: it ends or has an error at byte 8", gr::error);
}

TEST_CASE("a chat template has limits, whatever it asks for") {
  const std::string doubled =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  for (const std::string& text :
       {std::string("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
        std::string(
            "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
        std::string("{{ 'a' * 10000000000 }}"), std::string("{{ 'x'|center(1000000000) }}"),
        std::string("{{ [[1]]|tojson(indent=1000000000) }}"),
        std::string("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}"),
        std::string("{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}"),
        doubled + "{{ ns.x == ns.y }}", doubled + "{{ ns.x < ns.y }}", doubled + "{{ ns.x }}",
        doubled + "{{ ns.x|tojson }}", "{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}",
        "{{ 1" + std::string(5000, '-') + "1 }}",
        std::string("{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 ~ 'b' %}{{ b in a }}{{ a.find(b) }}")}) {
    CAPTURE(text.substr(0, 80));
    CHECK(problem(text).starts_with("limit: line 1, column "));
  }
  // At the ends of 64 bits, too.
  CHECK(write("{{ range(9223372036854775800, 9223372036854775807, 5)|list }}") ==
        "[9223372036854775800, 9223372036854775805]");
  CHECK(write("{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}") == "c");
  // What is given counts: a long chat takes more than a short one may.
  std::string chat = R"({"messages": [)";
  for (int i = 0; i < 4000; ++i)
    chat += (i == 0 ? "" : ", ") + std::string(R"({"role": "user", "content": "About as much as people say."})");
  const std::string text =
      write("{% for m in messages %}{{ '<' + m.role + '>' + m.content|trim }}\n{% endfor %}", chat + "]}");
  CHECK(text.size() == 4000 * 35);
}

TEST_CASE("a name that a chat template sets in a scope is that scope's own from its beginning, as in Jinja") {
  const std::string given = R"({"n": 7})";
  CHECK(write("{% macro f() %}[{{ n }}]{% endmacro %}{{ f() }}{% set n = 1 %}{{ f() }}", given) == "[][1]");
  CHECK(write("{{ n }}{% macro f() %}[{{ n }}]{% endmacro %}{{ f() }}{% set n = 1 %}{{ f() }}", given) == "7[7][1]");
  CHECK(write("{% for i in [1, 2] %}{{ n }}{% set n = i %}{{ n }}{% endfor %}{{ n }}", given) == "71727");
  CHECK(write("{% if n %}{% set n = 1 %}{% endif %}{{ n }}", given) == "1");
}

TEST_CASE("a chat template is given its date, and knows no other") {
  CHECK(write("{{ strftime_now('%d %b %Y, %A, %j, %H:%M:%S %p, %-d/%-m/%y %B %%') }}", "{}", "2024-02-29 00:05:09") ==
        "29 Feb 2024, Thursday, 060, 00:05:09 AM, 29/2/24 February %");
  CHECK(write("{{ strftime_now('%a %F %I') }}", "{}", "2023-12-31") == "Sun 2023-12-31 12");
  CHECK(write("{{ 'given' if strftime_now is defined }}") == "given");
}

TEST_CASE("what a chat template marks as generated is known to the byte") {
  const gr::rendered_chat chat =
      gr::chat_template(
          "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}!{% endgeneration %}.{% endfor %}")
          .render(gr::parse_template_value(
              R"({"messages": [{"role": "é", "content": "ab"}, {"role": "x", "content": "世"}]})", "chat"));
  CHECK(chat.text == "<é>ab!.<x>世!.");
  CHECK(chat.generated == std::vector<std::pair<std::size_t, std::size_t>>{{4, 7}, {11, 15}});
  CHECK_FALSE(chat.hides_generated);
  CHECK(gr::chat_template("{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}")
            .render(gr::parse_template_value("{}", "chat"))
            .hides_generated);
}
