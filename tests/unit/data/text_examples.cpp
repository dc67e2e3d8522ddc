// Files of examples.
#include <doctest/doctest.h>

#include <filesystem>
#include <gradus/data/text_examples.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gr = gradus;
using examples = std::vector<gr::text_example>;
using role = gr::chat_role;

namespace {

const std::filesystem::path folder = std::filesystem::temp_directory_path() / "gradus_examples";

std::filesystem::path file_of(const std::string& name, const std::string& text) {
  std::filesystem::create_directories((folder / name).parent_path());
  gr::write_file_atomically(folder / name, text);
  return folder / name;
}

examples read(const std::string& name, const std::string& text) { return gr::read_text_examples(file_of(name, text)); }

template <class T>
T only(const std::string& line) {
  const examples all = read("one.jsonl", line + "\n");
  REQUIRE(all.size() == 1);
  return std::get<T>(all.front().content);
}

/// What follows the file's name.
void refused(const std::string& name, const std::string& text, const std::string& message) {
  CHECK_THROWS_WITH_AS(read(name, text), ((folder / name).string() + message).c_str(), gr::error);
}
void line_refused(const std::string& line, const std::string& message) {
  refused("bad.jsonl", "\n" + line + "\n", ", line 2: " + message);
}

}  // namespace

TEST_CASE("a line of JSON is a text, a completed prompt, a chat or a preference") {
  CHECK(only<gr::plain_example>(R"({"text": "caf\u00e9\n", "id": 7, "meta": {"a": [1]}})") ==
        gr::plain_example{"café\n"});
  CHECK(only<gr::completion_example>(R"({"prompt": "p", "completion": ""})") == gr::completion_example{"p", ""});
  const auto chat = only<gr::chat_example>(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u", "name": "x"},)"
      R"({"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b", "weight": 1}],)"
      R"("prompt": "u", "tools": []})");
  CHECK(chat.messages ==
        std::vector<gr::chat_message>{
            {role::system, "s"}, {role::user, "u"}, {role::assistant, "a", false}, {role::assistant, "b"}});
  CHECK(only<gr::preference_example>(R"({"prompt": "p", "chosen": "c", "rejected": "r"})") ==
        gr::preference_example{gr::completion_example{"p", "c"}, gr::completion_example{"p", "r"}});
}

TEST_CASE("prompts and what follows them may be lists of messages") {
  const std::string prompt = R"("prompt": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},)"
                             R"({"role": "user", "content": "v"}])";
  const auto answer = [](const char* key, const char* text) {
    return std::string(", \"") + key + "\": [{\"role\": \"assistant\", \"content\": \"" + text + "\"}]";
  };
  const auto expected = [](const char* text) {
    return gr::chat_example{
        {{role::user, "u", false}, {role::assistant, "a", false}, {role::user, "v", false}, {role::assistant, text}}};
  };
  CHECK(only<gr::chat_example>("{" + prompt + answer("completion", "c") + "}") == expected("c"));
  CHECK(only<gr::preference_example>("{" + prompt + answer("chosen", "c") + answer("rejected", "r") + "}") ==
        gr::preference_example{expected("c"), expected("r")});
  line_refused("{" + prompt + R"(, "completion": "c"})",
               "of \"prompt\" and \"completion\" one is a text and the other a list of messages: make both the same");
}

TEST_CASE("empty lines are skipped, and an example knows its line") {
  const examples all = read("lines.jsonl", "\xEF\xBB\xBF{\"text\": \"a\"}\r\n\n  \t\n{\"text\": \"b\"}");
  REQUIRE(all.size() == 2);
  CHECK(all[0].where == (folder / "lines.jsonl").string() + ", line 1");
  CHECK(all[1].where == (folder / "lines.jsonl").string() + ", line 4");
}

TEST_CASE("a line that is no example is refused with its number") {
  line_refused("x", "is not JSON: it ends or has an error at byte 1");
  line_refused(R"({"text": "a", "text": "b"})", "the key \"text\" occurs twice in one object");
  line_refused("{\"text\": " + std::string(100, '['), "nests deeper than 64 levels");
  line_refused("7", "is no JSON object");
  line_refused("{\"text\": \"\xff\"}", "is not UTF-8");
  line_refused("{}", "has no \"text\", \"prompt\" or \"messages\"");
  line_refused(R"({"prompt": "p"})", "has a \"prompt\", and no \"completion\", or \"chosen\" and \"rejected\"");
  line_refused(R"({"text": "t", "messages": []})",
               "has both \"text\" and \"messages\": only one of them is the example");
  line_refused(R"({"text": "t", "prompt": "p"})", "has both \"text\" and \"prompt\": only one of them is the example");
  line_refused(R"({"text": null})", "\"text\" is no text");
  line_refused(R"({"completion": "c"})", "has no \"prompt\"");
  line_refused(R"({"prompt": "p", "chosen": "c"})", "has no \"rejected\"");
  line_refused(R"({"messages": "m"})", "\"messages\" is no list of messages");
  line_refused(R"({"messages": []})", "\"messages\" is empty");
  line_refused(R"({"messages": [7]})", "messages[0] is no JSON object");
  line_refused(R"({"messages": [{"role": "user"}]})", "messages[0] has no text \"content\"");
  line_refused(R"({"messages": [{"role": "user", "content": ["x"]}]})", "messages[0] has no text \"content\"");
  line_refused(R"({"messages": [{"content": "x"}]})", "messages[0] has no text \"role\"");
  line_refused(R"({"messages": [{"role": "user", "content": "x"}, {"role": "tool\n", "content": "x"}]})",
               "messages[1]: role \"tool\\x0a\" is none of system, user, assistant");
  line_refused(R"({"messages": [{"role": "assistant", "content": "x", "tool_calls": [1]}]})",
               "messages[0] has \"tool_calls\", which are not read");
  line_refused(R"({"messages": [{"role": "assistant", "content": "x", "function_call": {"name": "f"}}]})",
               "messages[0] has \"function_call\", which is not read");
  line_refused(R"({"messages": [{"role": "assistant", "content": "x", "train_detail": [{"train": false}]}]})",
               "messages[0] has \"train_detail\", which is not read");
  line_refused(R"({"messages": [{"role": "user", "content": "x"}]})", "has no target: no message of the assistant");
  line_refused(R"({"messages": [{"role": "assistant", "content": "x", "weight": 0}]})",
               "has no target: no message of the assistant");
  line_refused(R"({"text": "t", "tools": [1]})", "has \"tools\", which are not read");
  line_refused(R"({"text": "t", "image": "a.png"})", "has \"image\", which is not read");
  line_refused(R"({"prompt": "p", "completion": "c", "label": false})",
               "has a \"label\" of its completion, which is not read: keep the good ones only, without it");
}

TEST_CASE("a message is no target by OpenAI's weight of 0, and by Axolotl's train of false") {
  const auto marked = [](const std::string& marks) {
    return R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b", )" + marks +
           "}]}";
  };
  for (const auto& [marks, learned] :
       std::vector<std::pair<std::string, bool>>{{R"("train": false)", false},
                                                 {R"("weight": 0)", false},
                                                 {R"("weight": 0.0)", false},
                                                 {R"("train": true)", true},
                                                 {R"("weight": 1)", true},
                                                 {R"("train": null)", true},
                                                 {R"("train": true, "weight": 0)", false},
                                                 {R"("train": false, "weight": 1)", false}}) {
    CAPTURE(marks);
    const auto chat = only<gr::chat_example>(marked(marks));
    CHECK(chat.messages[0].is_target);
    CHECK(chat.messages[1].is_target == learned);
    CHECK(read("one.jsonl", marked(marks) + "\n").front().ignored.empty());
  }
  line_refused(marked(R"("train": 0)"), "messages[1]: \"train\" is neither true nor false");
  for (const char* weight : {"0.5", "\"0\"", "false"})
    line_refused(marked("\"weight\": " + std::string(weight)), "messages[1]: \"weight\" is neither 0 nor 1");
  const std::string answer = R"({"role": "assistant", "content": "a"})";
  line_refused(
      R"({"messages": [{"role": "user", "content": "u", "train": true}, )" + answer + "]}",
      "messages[0] has \"train\": true, and is not learned: only the assistant's messages after the prompt are");
  line_refused(R"({"prompt": [{"role": "assistant", "content": "u", "weight": 1}], "completion": [)" + answer + "]}",
               "prompt[0] has \"weight\": 1, and is not learned: only the assistant's messages after the prompt are");
  CHECK_NOTHROW(
      only<gr::chat_example>(R"({"messages": [{"role": "user", "content": "u", "train": false}, )" + answer + "]}"));
}

TEST_CASE("an example says which of its keys are ignored, whatever it is") {
  using keys = std::vector<std::string>;
  const auto ignored = [](const std::string& name, const std::string& text) {
    return read(name, text + "\n").front().ignored;
  };
  CHECK(ignored("one.jsonl", R"({"text": "t"})").empty());
  CHECK(ignored("one.jsonl", R"({"text": "t", "a": null, "b": "", "c": [], "d": {}, "tools": []})").empty());
  CHECK(ignored("one.jsonl", R"({"text": "t", "system": "s", "id": 0, "label": false})") ==
        keys{"id", "label", "system"});
  CHECK(ignored("one.jsonl", R"({"prompt": "p", "system": "s", "completion": "c"})") == keys{"system"});
  CHECK(ignored("one.jsonl", R"({"prompt": "p", "system": "s", "chosen": "c", "rejected": "r"})") == keys{"system"});
  CHECK(ignored("one.jsonl", R"({"prompt": "p", "messages": [{"role": "user", "content": "u", "name": "n"},)"
                             R"({"role": "assistant", "content": "a", "reasoning_content": "r", "name": "n"}]})") ==
        keys{"messages.name", "messages.reasoning_content", "prompt"});
  CHECK(ignored("one.jsonl", R"({"prompt": [{"role": "user", "content": "u", "name": "n"}],)"
                             R"("chosen": [{"role": "assistant", "content": "a", "thinking": "t"}],)"
                             R"("rejected": [{"role": "assistant", "content": "b", "x": 1}], "margin": 2})") ==
        keys{"chosen.thinking", "margin", "prompt.name", "rejected.x"});
  CHECK(ignored("t.csv", "id,completion,prompt,system\n,c,p,s") == keys{"system"});
}

TEST_CASE("ignored keys are counted and named") {
  gr::ignored_keys all;
  CHECK(all.text().empty());
  all.add({gr::plain_example{"t"}, "w", {}});
  CHECK(all.text().empty());
  all.add({gr::plain_example{"t"}, "w", {"b\n"}});
  CHECK(all.text() == R"(ignored in 1 example: "b\x0a")");
  all.add({gr::plain_example{"t"}, "w", {"a", "b\n"}});
  CHECK(all.text() == R"(ignored in 2 examples: "b\x0a", "a")");
  for (int i = 0; i < 20; ++i) all.add({gr::plain_example{"t"}, "w", {std::to_string(i)}});
  CHECK(all.text() == R"(ignored in 22 examples: "b\x0a", "a", "0", "1", "2", "3", "4", "5", and others)");
}

TEST_CASE("a file that was cut short is refused") {
  refused("cut.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b",
          ", line 2: is not JSON: it ends or has an error at byte 12; the file ends in this line: it may have been cut "
          "short");
  refused("cut.csv", "text\na\n\"b\nc", ", line 3: a quoted field has no end; the file may have been cut short");
}

TEST_CASE("a file that is cut short while it is read is an error, and ends no program") {
  for (const std::string name : {"shrinks.jsonl", "shrinks.csv", "shrinks.tsv"}) {
    const bool lines = name.ends_with("jsonl");
    std::string text = lines ? "" : "text\n";
    while (text.size() < 2'000'000) text += lines ? "{\"text\": \"some words\"}\n" : "some words\n";
    const auto path = file_of(name, text);
    const auto cut = [&](gr::text_example&&) { std::filesystem::resize_file(path, 10); };
    CHECK_THROWS_WITH_AS(
        gr::read_text_examples(path, cut),
        (path.string() + ": has changed since it was opened; it must not change while it is in use").c_str(),
        gr::error);
  }
}

TEST_CASE("an example of more than 16 MiB, or a table of more than 1024 columns, is refused with its line") {
  const std::string large(16 << 20, 'a');
  const std::string message = ": has more than 16 MiB, the most of one example; make several of it";
  refused("large.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + large + "\"}\n", ", line 2" + message);
  refused("large.csv", "text\na\n" + large + "a\n", ", line 3" + message);
  refused("large.csv", "text\na\n\"\n" + large + "\"\n", ", line 3" + message);
  refused("large.txt", large + "a", message);
  CHECK(read("large.txt", large).size() == 1);
  refused("wide.csv", std::string(1024, ','), ", line 1: has more than 1024 fields");
}

TEST_CASE("rows are read whole wherever the file is divided for reading") {
  std::string lines, table = "prompt,completion\n";
  for (int i = 0; i < 3000; ++i) {
    const std::string text(static_cast<std::size_t>(i * 37 % 701), static_cast<char>('a' + i % 26));
    lines += "{\"prompt\": \"p\", \"completion\": \"" + text + "\"}" + (i % 3 == 0 ? "\r\n" : "\n");
    table += "p,\"" + text + "\n\"\"\"" + (i % 3 == 0 ? "\r\n" : "\n");
    const examples all = i % 500 == 499 ? read("l.jsonl", lines) : examples();
    if (!all.empty()) CHECK(std::get<gr::completion_example>(all.back().content).completion == text);
    const examples rows = i % 500 == 499 ? read("t.csv", table) : examples();
    if (!rows.empty()) CHECK(std::get<gr::completion_example>(rows.back().content).completion == text + "\n\"");
    if (!rows.empty()) CHECK((all.size() == rows.size() && all.size() == static_cast<std::size_t>(i) + 1));
  }
}

TEST_CASE("tables have the same keys as columns") {
  const examples csv = read("t.csv", "id,completion,prompt\r\n1,\"a \"\"b\"\",\nc\",p\r\n\r\n2,, x \n");
  REQUIRE(csv.size() == 2);
  CHECK(std::get<gr::completion_example>(csv[0].content) == gr::completion_example{"p", "a \"b\",\nc"});
  CHECK(std::get<gr::completion_example>(csv[1].content) == gr::completion_example{" x ", ""});
  CHECK(csv[1].where == (folder / "t.csv").string() + ", line 5");
  const examples tsv = read("t.tsv", "text\n\"a, b\n");
  CHECK(std::get<gr::plain_example>(tsv[0].content).text == "\"a, b");
  refused("b.csv", "text,id\na\n", ", line 2: has 1 fields; the header has 2");
  refused("b.csv", "text,text\na,b\n", ": two columns are called \"text\"");
  refused("b.csv", "words\na\n", ", line 2: has no \"text\", \"prompt\" or \"messages\"");
  refused("b.csv", "text\n\"a\"b\n",
          ", line 2: a quoted field goes on after its quote; a quote within one is written twice");
  refused("b.csv", "text\n\xff\n", ", line 2: is not UTF-8");
  refused("b.csv", "messages\n[]\n", ", line 2: \"messages\" is no list of messages");
  refused("b.csv", "text\n", ": holds no examples");
}

TEST_CASE("a text file is one example, and a folder those of its files, by name") {
  std::filesystem::remove_all(folder);
  file_of("texts/b.txt", "two\n");
  file_of("texts/a/z.md", "# one");
  file_of("texts/c.jsonl", "x");
  file_of("texts/c.txt", "three");
  const examples all = gr::read_text_examples(folder / "texts");
  REQUIRE(all.size() == 3);
  CHECK(std::get<gr::plain_example>(all[0].content).text == "# one");
  CHECK(std::get<gr::plain_example>(all[1].content).text == "two\n");
  CHECK(all[2].where == (folder / "texts" / "c.txt").string());
  refused("u.txt", "\xff", ": is not UTF-8");
  std::filesystem::remove_all(folder / "texts/a");
  std::filesystem::create_directories(folder / "none");
  CHECK_THROWS_WITH_AS(gr::read_text_examples(folder / "none"),
                       doctest::Contains("none: has no .txt or .md files; name files of other kinds themselves"),
                       gr::error);
}

TEST_CASE("files in other formats are refused with what to do") {
  refused("e.jsonl", "", ": is empty");
  refused("e.jsonl", "\n \n", ": holds no examples");
  refused("e.jsonl.gz", "x", ": is compressed by gzip; unpack it first: gunzip FILE");
  refused("e.parquet", "x",
          ": is a Parquet table; convert it first: python3 -c \"import pandas; "
          "pandas.read_parquet('FILE').to_json('FILE.jsonl', orient='records', lines=True)\"");
  refused("e.json", "\n[{\"text\": \"a\"}]",
          ": is one JSON array; write an object a line: python3 -c \"import json; [print(json.dumps(e)) for e in "
          "json.load(open('FILE'))]\" > FILE.jsonl");
  refused("e.docx", "x", ": its name ends in none of .jsonl, .ndjson, .csv, .tsv, .txt, .md");
  refused("e.jsonl", "\x1f\x8b", ": is compressed by gzip; unpack it first: gunzip FILE");
  CHECK(read("e.json", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").size() == 2);
  CHECK_THROWS_WITH_AS(gr::read_text_examples("/nowhere/e.jsonl"), "/nowhere/e.jsonl: no such file", gr::error);
}

TEST_CASE("a tokenizer_config.json names its chat format") {
  std::filesystem::remove_all(folder);
  const std::string zephyr = "<|user|> <|system|> <|assistant|> eos_token", chatml = "<|im_start|> <|im_end|>";
  const auto read_config = [](const nlohmann::json& values) {
    return gr::read_chat_format(file_of("tokenizer_config.json", values.dump()));
  };
  CHECK(read_config({{"chat_template", chatml}})->name == "chatml");
  CHECK(read_config({{"chat_template", zephyr}, {"eos_token", {{"content", "<|endoftext|>"}}}})->stops ==
        std::vector<std::string>{"<|endoftext|>"});
  CHECK(read_config({{"chat_template", nlohmann::json::array({{{"name", "rag"}, {"template", zephyr}},
                                                              {{"name", "default"}, {"template", chatml}}})}})
            ->name == "chatml");
  CHECK_FALSE(read_config({{"bos_token", nullptr}}).has_value());
  CHECK_THROWS_WITH_AS(read_config({{"chat_template", 7}}),
                       doctest::Contains("chat_template: is no text, and no list with a \"default\""), gr::error);
  CHECK_THROWS_WITH_AS(read_config({{"chat_template", "x"}}),
                       doctest::Contains("tokenizer_config.json: chat_template: none of the chat formats; name one by"),
                       gr::error);
  file_of("chat_template.jinja", chatml);
  CHECK(read_config(nlohmann::json::object())->name == "chatml");
}
