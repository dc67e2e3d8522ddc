#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "../core/printable.hpp"
#include "../io/json.hpp"
#include "../io/text_file.hpp"
#include "../tokenizer/unicode.hpp"
#include "text_examples.hpp"

namespace gradus {

namespace detail {

/// Makes an example of a JSON object.
class example_reader {
 public:
  using json = nlohmann::json;

  explicit example_reader(std::string where) : where_(std::move(where)) {}

  text_example read(const json& object) {
    if (!object.is_object()) fail("is no JSON object");
    // One of these says what an example is.
    std::string kind;
    for (const char* key : {"text", "messages", "completion", "chosen"}) {
      if (!object.contains(key)) continue;
      if (!kind.empty()) fail("has both \"" + kind + "\" and \"" + key + "\": only one of them is the example");
      kind = key;
    }
    refuse(object, kind);
    const auto example = [&](auto content) {
      return text_example{std::move(content), where_, {ignored_.begin(), ignored_.end()}};
    };
    if (kind == "text") {
      ignore_others(object, {"text"});
      return example(plain_example{text(object, "text")});
    }
    if (kind == "messages") {
      ignore_others(object, {"messages"});
      return example(chat(messages(object, "messages", true)));
    }
    if (kind == "completion") {
      ignore_others(object, {"prompt", "completion"});
      return std::visit([&](auto content) { return example(std::move(content)); }, continued(object, "completion"));
    }
    ignore_others(object, {"prompt", "chosen", "rejected"});
    preference_example pair{continued(object, "chosen"), continued(object, "rejected")};
    return example(std::move(pair));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw error(where_ + ": " + what); }

  /// Whether a value says nothing. Tables have an entry for each column.
  static bool is_empty(const json& value) {
    return value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
  }
  /// Throws for keys without which, or with which, an example means something else.
  void refuse(const json& object, const std::string& kind) const {
    if (kind.empty())
      fail(object.contains("prompt") ? "has a \"prompt\", and no \"completion\", or \"chosen\" and \"rejected\""
                                     : "has no \"text\", \"prompt\" or \"messages\"");
    if (kind == "text" && object.contains("prompt"))
      fail("has both \"text\" and \"prompt\": only one of them is the example");
    refuse_keys(object, {"tools", "functions", "images", "image", "videos", "audios", "chat_template_kwargs"}, "");
    if (kind == "completion" && object.contains("label"))
      fail("has a \"label\" of its completion, which is not read: keep the good ones only, without it");
  }
  void refuse_keys(const json& object, std::initializer_list<const char*> keys, const std::string& of) const {
    for (const char* key : keys)
      if (object.contains(key) && !is_empty(object[key]))
        fail(of + "has \"" + key + "\", which " + (std::string_view(key).ends_with('s') ? "are" : "is") + " not read");
  }
  /// Remembers the keys that are none of `read`.
  void ignore_others(const json& object, std::initializer_list<std::string_view> read, const std::string& of = "") {
    for (const auto& [key, value] : object.items())
      if (!is_empty(value) && std::ranges::find(read, key) == read.end()) ignored_.insert(of + key);
  }
  const json& value(const json& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end()) fail("has no \"" + key + "\"");
    return *found;
  }
  std::string text(const json& object, const std::string& key) const {
    const json& found = value(object, key);
    if (!found.is_string()) fail("\"" + key + "\" is no text");
    return found.get<std::string>();
  }
  /// What a message says of being learned, by OpenAI's "weight", 0 or 1, and Axolotl's "train".
  bool is_target(const json& message, const std::string& name, bool may_be) const {
    bool learned = true;
    for (const char* key : {"weight", "train"}) {
      const auto said = message.find(key);
      if (said == message.end() || said->is_null()) continue;
      const bool is_weight = *key == 'w', no = is_weight ? *said == 0 : *said == false;
      if (!no && (is_weight ? *said != 1 : *said != true))
        fail(name + ": \"" + key + (is_weight ? "\" is neither 0 nor 1" : "\" is neither true nor false"));
      if (!no && !may_be)
        fail(name + " has \"" + key + "\": " + said->dump() +
             ", and is not learned: only the assistant's messages after the prompt are");
      learned &= !no;
    }
    return learned;
  }
  /// The messages of a list, which `may_be_learned` where the assistant writes them.
  std::vector<chat_message> messages(const json& object, const std::string& key, bool may_be_learned) {
    const json& list = value(object, key);
    if (!list.is_array()) fail("\"" + key + "\" is no list of messages");
    if (list.empty()) fail("\"" + key + "\" is empty");
    std::vector<chat_message> all;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string name = key + "[" + std::to_string(i) + "]";
      const auto part = [&](const char* what) {
        const auto found = list[i].find(what);
        if (found == list[i].end() || !found->is_string()) fail(name + " has no text \"" + std::string(what) + "\"");
        return found->get<std::string>();
      };
      if (!list[i].is_object()) fail(name + " is no JSON object");
      refuse_keys(list[i], {"tool_calls", "function_call", "train_detail"}, name + " ");
      ignore_others(list[i], {"role", "content", "weight", "train"}, key + ".");
      const std::string role = part("role");
      const auto known = std::ranges::find(chat_role_names, role);
      if (known == chat_role_names.end())
        fail(name + ": role \"" + printable(role.substr(0, 40)) + "\" is none of system, user, assistant");
      const auto speaker = static_cast<chat_role>(known - chat_role_names.begin());
      const bool may_be = may_be_learned && speaker == chat_role::assistant;
      // What others say is context whatever it is marked as.
      all.push_back({speaker, part("content"), is_target(list[i], name, may_be) || speaker != chat_role::assistant});
    }
    return all;
  }
  chat_example chat(std::vector<chat_message> all) const {
    const auto is_learned = [](const chat_message& m) { return m.role == chat_role::assistant && m.is_target; };
    if (std::ranges::none_of(all, is_learned)) fail("has no target: no message of the assistant");
    return {std::move(all)};
  }
  /// What `key` has, after the prompt.
  std::variant<completion_example, chat_example> continued(const json& object, const std::string& key) {
    const json &prompt = value(object, "prompt"), &rest = value(object, key);
    if (prompt.is_array() != rest.is_array())
      fail("of \"prompt\" and \"" + key + "\" one is a text and the other a list of messages: make both the same");
    if (!prompt.is_array()) return completion_example{text(object, "prompt"), text(object, key)};
    auto all = messages(object, "prompt", false);
    for (chat_message& m : all) m.is_target = false;
    for (chat_message& m : messages(object, key, true)) all.push_back(std::move(m));
    return chat(std::move(all));
  }

  std::string where_;
  std::set<std::string> ignored_;
};

/// The lines or rows of a file.
class example_file {
 public:
  explicit example_file(const std::filesystem::path& path) : file_(path) {}

  /// The number of examples.
  std::size_t read_lines(const std::function<void(text_example&&)>& sink) {
    std::size_t count = 0;
    const std::string_view start = file_.ahead();
    if (start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size())).starts_with('['))
      throw error(file_.path().string() +
                  ": is one JSON array; write an object a line: python3 -c \"import json; [print(json." +
                  "dumps(e)) for e in json.load(open('FILE'))]\" > FILE.jsonl");
    for (bool ended = true; !file_.ahead().empty();) {
      begin_row();
      const std::string_view line = this->line(ended);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
        check(line);
        strict_json_builder builder;
        if (!builder.parse(line))
          throw error(where() + ": " + builder.problem +
                      (ended ? "" : "; the file ends in this line: it may have been cut short"));
        sink(example_reader(where()).read(builder.result));
        ++count;
      }
      file_.skip(line.size() + (ended ? 1 : 0));
    }
    return count;
  }
  std::size_t read_table(char delimiter, bool quotes, const std::function<void(text_example&&)>& sink) {
    std::vector<std::string> names, fields;
    if (!next_row(delimiter, quotes, names)) return 0;
    std::size_t count = 0;
    for (; next_row(delimiter, quotes, fields); ++count) {
      if (fields.size() != names.size())
        throw error(where() + ": has " + std::to_string(fields.size()) + " fields; the header has " +
                    std::to_string(names.size()));
      nlohmann::json object = nlohmann::json::object();
      for (std::size_t i = 0; i < names.size(); ++i)
        if (!object.emplace(names[i], std::move(fields[i])).second)
          throw error(file_.path().string() + ": two columns are called \"" + printable(names[i].substr(0, 40)) + "\"");
      sink(example_reader(where()).read(object));
    }
    return count;
  }
  std::string read_whole() {
    const std::string_view text = file_.ahead(most_of_an_example + 1);
    refuse_above(text.size());
    check(text);
    return std::string(text);
  }

 private:
  // Encoding takes some ten times the memory of an example, and a model reads a few MB of one at most.
  static constexpr std::size_t most_of_an_example = std::size_t{1} << 24;
  static constexpr std::size_t most_columns = 1024;

  std::string where() const { return file_.path().string() + (first_ > 0 ? ", line " + std::to_string(first_) : ""); }
  void check(std::string_view text) const {
    if (unicode::count_broken(text) > 0) throw error(where() + ": is not UTF-8");
  }
  void refuse_above(std::size_t bytes) const {
    if (bytes > most_of_an_example)
      throw error(where() + ": has more than " + std::to_string(most_of_an_example >> 20) +
                  " MiB, the most of one example; make several of it");
  }
  void begin_row() {
    first_ = ++last_;
    begin_ = file_.position();
  }
  /// The line that follows, without its end; `ended` unless the file ends before it.
  std::string_view line(bool& ended) {
    for (std::size_t searched = 0;;) {
      const std::string_view some = file_.ahead(searched + 1);
      const std::size_t end = some.find('\n', searched);
      refuse_above(std::min(end, some.size()));
      ended = end != std::string_view::npos;
      if (ended || some.size() == searched) return some.substr(0, end);
      searched = some.size();
    }
  }
  /// Reads the fields of the next row that is no empty line; returns false after the last one.
  bool next_row(char delimiter, bool quotes, std::vector<std::string>& fields) {
    const auto line_end = [&] {
      const std::string_view next = file_.ahead(2);
      return next.starts_with('\n') ? 1u : next.starts_with("\r\n") ? 2u : 0u;
    };
    for (auto end = line_end(); end > 0; end = line_end()) {
      file_.skip(end);
      ++last_;
    }
    if (file_.ahead().empty()) return false;
    begin_row();
    fields.assign(1, {});
    for (bool begins = true; !file_.ahead().empty();) {
      if (quotes && begins && file_.ahead().front() == '"') take_quoted(delimiter, fields.back());
      begins = false;
      if (file_.ahead().empty()) break;
      const char c = file_.ahead().front();
      const auto end = line_end();
      file_.skip(std::max(end, 1u));
      if (end > 0) break;
      refuse_above(file_.position() - begin_);
      if (c == delimiter) {
        if (fields.size() == most_columns)
          throw error(where() + ": has more than " + std::to_string(most_columns) + " fields");
        fields.emplace_back();
        begins = true;
      } else {
        fields.back() += c;
      }
    }
    for (const std::string& field : fields) check(field);
    return true;
  }
  void take_quoted(char delimiter, std::string& field) {
    for (file_.skip(1);;) {
      const std::string_view some = file_.ahead();
      if (some.empty()) throw error(where() + ": a quoted field has no end; the file may have been cut short");
      const std::string_view part = some.substr(0, some.find('"'));
      last_ += static_cast<std::size_t>(std::ranges::count(part, '\n'));
      field += part;
      file_.skip(part.size());
      refuse_above(file_.position() - begin_);
      if (part.size() == some.size()) continue;
      file_.skip(1);
      if (!file_.ahead().starts_with('"')) break;
      field += '"';
      file_.skip(1);
    }
    const std::string_view next = file_.ahead();
    if (!next.empty() && next.front() != delimiter && next.front() != '\n' && next.front() != '\r')
      throw error(where() + ": a quoted field goes on after its quote; a quote within one is written twice");
  }

  text_stream file_;
  std::size_t begin_ = 0;             // where the current row begins
  std::size_t first_ = 0, last_ = 0;  // lines of the current row, counted from 1
};

/// The texts of a folder, in the order of their names.
GRADUS_IMPL std::vector<std::filesystem::path> texts_of_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code problem;
  for (std::filesystem::recursive_directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (const auto kind = entry->path().extension(); (kind == ".txt" || kind == ".md") && entry->is_regular_file())
      paths.push_back(entry->path());
  if (problem) throw error(folder.string() + ": cannot be read: " + problem.message());
  if (paths.empty()) throw error(folder.string() + ": has no .txt or .md files; name files of other kinds themselves");
  std::ranges::sort(paths);
  return paths;
}

}  // namespace detail

GRADUS_IMPL void ignored_keys::add(const text_example& example) {
  if (example.ignored.empty()) return;
  ++examples_;
  for (const std::string& key : example.ignored)
    if (names_.size() <= 8 && std::ranges::find(names_, key) == names_.end()) names_.push_back(key);
}

GRADUS_IMPL std::string ignored_keys::text() const {
  if (examples_ == 0) return "";
  std::string all = "ignored in " + std::to_string(examples_) + (examples_ == 1 ? " example: " : " examples: ");
  for (std::size_t i = 0; i < names_.size(); ++i)
    all += (i > 0 ? ", " : "") + (i == 8 ? std::string("and others") : '"' + printable(names_[i].substr(0, 60)) + '"');
  return all;
}

GRADUS_IMPL void read_text_examples(const std::filesystem::path& path,
                                    const std::function<void(text_example&&)>& sink) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const auto& text : detail::texts_of_folder(path)) read_text_examples(text, sink);
    return;
  }
  const std::string kind = path.extension().string();
  if (kind == ".gz") throw error(path.string() + ": is compressed by gzip; unpack it first: gunzip FILE");
  if (kind == ".parquet")
    throw error(path.string() + ": is a Parquet table; convert it first: python3 -c \"import pandas; pandas.read_" +
                "parquet('FILE').to_json('FILE.jsonl', orient='records', lines=True)\"");
  const auto is = [&](std::initializer_list<std::string_view> kinds) {
    return std::ranges::find(kinds, kind) != kinds.end();
  };
  if (!is({".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".md"}))
    throw error(path.string() + ": its name ends in none of .jsonl, .ndjson, .csv, .tsv, .txt, .md");
  detail::example_file file(path);
  if (is({".txt", ".md"})) return sink({plain_example{file.read_whole()}, path.string()});
  const std::size_t count =
      is({".csv", ".tsv"}) ? file.read_table(kind == ".csv" ? ',' : '\t', kind == ".csv", sink) : file.read_lines(sink);
  if (count == 0) throw error(path.string() + ": holds no examples");
}

GRADUS_IMPL std::vector<text_example> read_text_examples(const std::filesystem::path& path) {
  std::vector<text_example> all;
  read_text_examples(path, [&](text_example&& example) { all.push_back(std::move(example)); });
  return all;
}

}  // namespace gradus
