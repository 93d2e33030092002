// SPDX-License-Identifier: Apache-2.0
#include "scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "config/duration.hpp"
#include "config/number.hpp"
#include "config/size.hpp"
#include "config/text.hpp"
#include "sched/request_queue.hpp"

namespace elevd::daemon::scenario {
namespace {

using config::quote;
using sched::Bytes;
using sched::Duration;
using sched::IoPriority;
using sched::Op;
using sched::Sector;
using sched::Sectors;

constexpr std::string_view kOpLetters = "RWFDZ";  // by sched::Op
constexpr unsigned kNormalLevel = 4;
constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr Sectors kDefaultLength{8};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// [a-z][a-z0-9_-]*
bool is_name(std::string_view word) {
  return !word.empty() && is_small_letter(word[0]) &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return is_small_letter(c) || is_digit(c) || c == '_' || c == '-';
         });
}

struct KeyValue {
  std::string_view key, value;
  bool has_value = false;
};

KeyValue split_key(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {word, {}, false};
  return {word.substr(0, equals), word.substr(equals + 1), true};
}

/// The words of a line, and what follows a word as it stands there.
struct Line {
  std::string_view text;
  std::vector<std::string_view> words;

  explicit Line(std::string_view line) : text(line.substr(0, line.find('#'))) {
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && !is_blank(text[end])) ++end;
      if (end != at) words.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  /// From word `index` to the end of the line.
  [[nodiscard]] std::string_view from(std::size_t index) const {
    if (index >= words.size()) return {};
    return text.substr(static_cast<std::size_t>(words[index].data() - text.data()));
  }
};

class Parser {
 public:
  Parser(std::string_view file, Scenario& scenario) : scenario_(scenario) {
    scenario_.file = file;
    apply_facts();
  }

  /// False: problem() says why.
  [[nodiscard]] bool take(const Line& line, unsigned number);
  [[nodiscard]] std::string problem() const { return problem_; }

 private:
  using Reader = bool (Parser::*)(const Line&);
  struct Word {
    std::string_view name;
    Reader read;
  };
  static const Word kWords[];

  bool fail(std::string what) {
    problem_ = std::move(what);
    return false;
  }
  void add(Action action) { scenario_.statements.push_back({number_, std::move(action)}); }
  [[nodiscard]] bool no_more(const Line& line, std::size_t words);

  // Values. False: problem_ is set.
  [[nodiscard]] bool number(std::string_view text, std::uint64_t low, std::uint64_t high,
                            std::uint64_t& value);
  [[nodiscard]] bool number(std::string_view text, std::uint64_t low, std::uint64_t high,
                            unsigned& value);
  [[nodiscard]] bool duration(std::string_view text, Duration least, Duration& value);
  [[nodiscard]] bool size(std::string_view text, Bytes& value);
  [[nodiscard]] bool decimal(std::string_view text, double& value);
  [[nodiscard]] bool name(std::string_view what, std::string_view text);
  [[nodiscard]] bool task_name(std::string_view text);
  [[nodiscard]] bool priority(std::string_view text, IoPriority& value);
  [[nodiscard]] bool nice(std::string_view text, IoPriority& value);
  [[nodiscard]] bool level(std::string_view text, std::string_view word, unsigned& value);
  [[nodiscard]] bool bio(std::string_view word, bool expected, BioWords& bio);
  [[nodiscard]] bool bio_suffix(std::string_view suffix, std::string_view word, bool expected,
                                BioWords& bio);
  [[nodiscard]] bool bio_class(std::string_view suffix, std::string_view word, BioWords& bio);
  [[nodiscard]] bool bio_fits(std::string_view word, const BioWords& bio);

  // Statements.
  bool device(const Line& line);
  bool device_word(const KeyValue& word, Device& device);
  bool device_time(const KeyValue& word, DeviceTiming& timing, bool& known);
  bool device_fact(const KeyValue& word, bool& known);
  void apply_facts();
  bool scheduler(const Line& line);
  bool set(const Line& line);
  bool group(const Line& line);
  bool task(const Line& line);
  bool submit(const Line& line) { return bios(line, false); }
  bool single(const Line& line) { return bios(line, true); }
  bool bios(const Line& line, bool each);
  bool job(const Line& line);
  bool job_word(const KeyValue& word, Job& job, Bytes& block, Bytes& offset, Bytes& region);
  bool job_fits(Job& job, Bytes block, Bytes offset, Bytes region);
  bool quiesce(const Line& line);
  bool unquiesce(const Line& line);
  bool release(const Line& line);
  bool at(const Line& line);
  bool drain(const Line& line);
  bool expect_dispatch(const Line& line);
  bool expect(const Line& line);
  bool expect_summary(const Line& line);

  Scenario& scenario_;
  std::string problem_;
  unsigned number_ = 0;
  bool had_bio_ = false;
  bool stalled_ = false;
  bool quiesced_ = false;
  DeviceTiming timing_;  // as of this line
  std::uint64_t logical_ = 512;
  std::uint64_t max_hw_kb_ = 1280;
  Duration clock_;  // the latest time since start that an `at` named
  std::set<std::string, std::less<>> tasks_;
  std::set<std::string, std::less<>> groups_;
};

const Parser::Word Parser::kWords[] = {
    {"device", &Parser::device},   {"scheduler", &Parser::scheduler},
    {"set", &Parser::set},         {"group", &Parser::group},
    {"task", &Parser::task},       {"submit", &Parser::submit},
    {"single", &Parser::single},   {"job", &Parser::job},
    {"quiesce", &Parser::quiesce}, {"unquiesce", &Parser::unquiesce},
    {"release", &Parser::release}, {"at", &Parser::at},
    {"drain", &Parser::drain},     {"expect-dispatch", &Parser::expect_dispatch},
    {"expect", &Parser::expect},   {"expect-summary", &Parser::expect_summary},
};

bool Parser::take(const Line& line, unsigned number) {
  if (line.words.empty()) return true;
  number_ = number;
  for (const Word& word : kWords) {
    if (word.name == line.words[0]) return (this->*word.read)(line);
  }
  std::vector<std::string_view> names;
  for (const Word& word : kWords) names.push_back(word.name);
  return fail(fmt::format("{}: no such statement{}", quote(line.words[0]),
                          config::suggestion(line.words[0], names)));
}

bool Parser::no_more(const Line& line, std::size_t words) {
  if (line.words.size() <= words) return true;
  return fail(fmt::format("{}: unexpected {}", line.words[0], quote(line.words[words])));
}

// --- Values -----------------------------------------------------------------------------------

bool Parser::number(std::string_view text, std::uint64_t low, std::uint64_t high,
                    std::uint64_t& value) {
  const auto parsed = config::parse_number(text, low, high);
  if (!parsed) return fail(parsed.error().what);
  value = *parsed;
  return true;
}

bool Parser::number(std::string_view text, std::uint64_t low, std::uint64_t high, unsigned& value) {
  std::uint64_t wide = 0;
  if (!number(text, low, std::min<std::uint64_t>(high, std::numeric_limits<unsigned>::max()), wide))
    return false;
  value = static_cast<unsigned>(wide);
  return true;
}

bool Parser::duration(std::string_view text, Duration least, Duration& value) {
  std::size_t unit = text.size();
  while (unit > 0 && is_small_letter(text[unit - 1])) --unit;
  constexpr std::string_view kUnits[] = {"ns", "us", "ms", "s"};
  if (std::find(std::begin(kUnits), std::end(kUnits), text.substr(unit)) == std::end(kUnits)) {
    return fail(
        fmt::format("{} is not a time, expected a number with ns, us, ms or s", quote(text)));
  }
  const auto parsed = config::parse_duration(text);
  if (!parsed) return fail(parsed.error().what);
  value = {parsed->count()};
  if (value < least)
    return fail(fmt::format("{} is too short, expected at least 1ns", quote(text)));
  return true;
}

bool Parser::size(std::string_view text, Bytes& value) {
  const auto parsed = config::parse_size(text);
  if (!parsed) return fail(parsed.error().what);
  value = {*parsed};
  return true;
}

bool Parser::decimal(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (code == std::errc{} && stop == end && !text.empty()) return true;
  return fail(fmt::format("{} is not a number", quote(text)));
}

bool Parser::name(std::string_view what, std::string_view text) {
  if (is_name(text)) return true;
  return fail(
      fmt::format("{} is not a name for a {}, expected a small letter, then small letters, "
                  "digits, _ or -",
                  quote(text), what));
}

bool Parser::task_name(std::string_view text) {
  if (!name("task", text)) return false;
  if (text == kWholeDisk) return fail("'all' is no name for a task, it is the whole disk");
  return true;
}

bool Parser::level(std::string_view text, std::string_view word, unsigned& value) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '7') {
    value = static_cast<unsigned>(text[0] - '0');
    return true;
  }
  return fail(fmt::format("{}: a level is 0 to 7", quote(word)));
}

bool Parser::priority(std::string_view text, IoPriority& value) {
  if (text == "idle") {
    value = IoPriority::idle();
    return true;
  }
  if (!text.starts_with("rt/") && !text.starts_with("be/")) {
    return fail(fmt::format("{} is not a priority, expected rt/0 to rt/7, be/0 to be/7 or idle",
                            quote(text)));
  }
  unsigned level_value = 0;
  if (!level(text.substr(3), text, level_value)) return false;
  value =
      text[0] == 'r' ? IoPriority::real_time(level_value) : IoPriority::best_effort(level_value);
  return true;
}

/// What a task without an I/O priority gets from its nice value.
bool Parser::nice(std::string_view text, IoPriority& value) {
  constexpr int kNicest = -20;
  constexpr int kLeastNice = 19;
  constexpr unsigned kBestEffort = 2;
  int nice = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, nice);
  if (code != std::errc{} || stop != end || nice < kNicest || nice > kLeastNice) {
    return fail(fmt::format("{} is not valid, expected a whole number from {} to {}", quote(text),
                            kNicest, kLeastNice));
  }
  value = IoPriority::unset(kBestEffort, IoPriority::level_of_nice(nice));
  return true;
}

// --- Bios -------------------------------------------------------------------------------------

/// `expected`: a dispatch that is expected, which has a place and a class only.
bool Parser::bio(std::string_view word, bool expected, BioWords& bio) {
  const std::size_t slash = std::min(word.find('/'), word.size());
  const std::string_view place = word.substr(0, slash);
  const std::size_t op = place.empty() ? std::string_view::npos : kOpLetters.find(place[0]);
  if (op == std::string_view::npos) {
    return fail(
        fmt::format("{} is not a bio, expected R, W, D or Z and a sector, or F", quote(word)));
  }
  bio.op = static_cast<Op>(op);
  if (bio.op == Op::flush) {
    if (place.size() != 1) return fail(fmt::format("{}: a flush has no sector", quote(word)));
  } else {
    const std::size_t plus = std::min(place.find('+'), place.size());
    if (!number(place.substr(1, plus - 1), 0, kMost, bio.start.value)) return false;
    bio.length = kDefaultLength;
    if (plus != place.size() && !number(place.substr(plus + 1), 1, kMost, bio.length.value)) {
      return false;
    }
  }
  std::set<std::string_view> seen;
  for (std::size_t begin = slash; begin < word.size();) {
    const std::size_t end = std::min(word.find('/', begin + 1), word.size());
    const std::string_view suffix = word.substr(begin + 1, end - begin - 1);
    if (!seen.insert(suffix).second) {
      return fail(fmt::format("{}: /{} is there twice", quote(word), suffix));
    }
    if (!bio_suffix(suffix, word, expected, bio)) return false;
    begin = end;
  }
  const bool waited_for = (bio.flags & sched::kBioSync) == 0;  // until here the mark of /async
  bio.flags = static_cast<sched::BioFlags>(bio.flags & ~sched::kBioSync);
  if (waited_for) bio.flags |= sched::kBioSync;
  if (bio.op == Op::flush) bio.flags |= sched::kBioPreflush;
  return expected || bio_fits(word, bio);
}

bool Parser::bio_suffix(std::string_view suffix, std::string_view word, bool expected,
                        BioWords& bio) {
  const std::string_view io_class = suffix.substr(0, 2);
  if (io_class == "RT" || io_class == "BE" || io_class == "ID") {
    return bio_class(suffix, word, bio);
  }
  struct Row {
    std::string_view name;
    unsigned flags;
    std::string_view ops;  // letters of those that take it
  };
  constexpr Row kRows[] = {{"async", sched::kBioSync, "WDZ"},
                           {"fua", sched::kBioFua, "W"},
                           {"pre", sched::kBioPreflush, "W"},
                           {"nomerge", sched::kBioNoMerge, "RWDZ"},
                           {"head", sched::kBioAtHead | sched::kBioNoMerge, "RWDZ"}};
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [suffix](const Row& known) { return known.name == suffix; });
  if (row == std::end(kRows)) {
    return fail(
        fmt::format("{}: no such suffix /{}, expected RT, BE, ID, async, fua, pre, nomerge "
                    "or head",
                    quote(word), suffix));
  }
  if (expected) {
    return fail(fmt::format("{}: a dispatch is known by operation, place and class, not by /{}",
                            quote(word), suffix));
  }
  if (row->ops.find(kOpLetters[static_cast<unsigned>(bio.op)]) == std::string_view::npos) {
    return fail(fmt::format("{}: /{} means nothing for this operation", quote(word), suffix));
  }
  bio.flags = static_cast<sched::BioFlags>(bio.flags | row->flags);
  return true;
}

bool Parser::bio_class(std::string_view suffix, std::string_view word, BioWords& bio) {
  if (bio.priority) return fail(fmt::format("{}: two classes", quote(word)));
  const std::string_view rest = suffix.substr(2);
  if (suffix[0] == 'I') {
    if (!rest.empty()) return fail(fmt::format("{}: /ID has no level", quote(word)));
    bio.priority = IoPriority::idle();
    return true;
  }
  unsigned value = kNormalLevel;
  if (!rest.empty() && !level(rest, word, value)) return false;
  bio.has_level = !rest.empty();
  bio.priority = suffix[0] == 'R' ? IoPriority::real_time(value) : IoPriority::best_effort(value);
  return true;
}

bool Parser::bio_fits(std::string_view word, const BioWords& bio) {
  const std::uint64_t block = logical_ / sched::kSectorBytes;
  if (bio.start.value % block != 0 || bio.length.value % block != 0) {
    return fail(
        fmt::format("{}: start and length must be multiples of the logical block, {} "
                    "sectors",
                    quote(word), block));
  }
  const std::uint64_t sectors = scenario_.facts.size.value / sched::kSectorBytes;
  if (bio.length.value > sectors || bio.start.value > sectors - bio.length.value) {
    return fail(fmt::format("{}: behind the end of the device, {} sectors", quote(word), sectors));
  }
  return true;
}

// --- Device -----------------------------------------------------------------------------------

bool Parser::device(const Line& line) {
  if (line.words.size() < 2) return fail("device: expected KEY[=VALUE]...");
  Device change;
  change.timing = timing_;
  for (std::size_t i = 1; i < line.words.size(); ++i) {
    if (!device_word(split_key(line.words[i]), change)) {
      problem_ = "device: " + problem_;
      return false;
    }
  }
  timing_ = change.timing;
  stalled_ = stalled_ || change.stall;
  if (had_bio_) {
    add(change);
    return true;
  }
  apply_facts();
  scenario_.timing = timing_;
  scenario_.stalled = scenario_.stalled || change.stall;
  return true;
}

bool Parser::device_word(const KeyValue& word, Device& device) {
  if (word.key == "seek" || word.key == "stalled") {
    if (word.has_value) return fail(fmt::format("{} takes no value", word.key));
    if (word.key == "stalled") {
      device.stall = true;
      return true;
    }
    if (device.timing.parallel != 0) return fail("seek has one head, it does not go with parallel");
    device.timing.seek = true;
    return true;
  }
  bool known = false;
  if (!device_time(word, device.timing, known)) return false;
  if (known) return true;
  if (!device_fact(word, known)) return false;
  if (known) return true;
  constexpr std::string_view kKeys[] = {
      "depth",        "service",    "read",   "write",   "discard", "flush",   "parallel",
      "seek",         "sequential", "random", "stalled", "size",    "logical", "max_hw_sectors_kb",
      "max_segments", "rotational", "fua"};
  return fail(
      fmt::format("{}: no such key{}", quote(word.key), config::suggestion(word.key, kKeys)));
}

bool Parser::device_time(const KeyValue& word, DeviceTiming& timing, bool& known) {
  constexpr Duration kLeast{1};
  known = true;
  if (word.key == "service") return duration(word.value, kLeast, timing.service);
  if (word.key == "sequential") return duration(word.value, kLeast, timing.sequential);
  if (word.key == "random") return duration(word.value, kLeast, timing.random);
  if (word.key == "parallel") {
    if (timing.seek) return fail("seek has one head, it does not go with parallel");
    return number(word.value, 1, sched::kMaxHardwareDepth, timing.parallel);
  }
  constexpr std::pair<std::string_view, ServiceKind> kKinds[] = {{"read", ServiceKind::read},
                                                                 {"write", ServiceKind::write},
                                                                 {"discard", ServiceKind::discard},
                                                                 {"flush", ServiceKind::flush}};
  for (const auto& [name, kind] : kKinds) {
    if (word.key != name) continue;
    Duration time;
    if (!duration(word.value, kLeast, time)) return false;
    timing.special[static_cast<unsigned>(kind)] = time;
    return true;
  }
  known = false;
  return true;
}

bool Parser::device_fact(const KeyValue& word, bool& known) {
  DeviceFacts& facts = scenario_.facts;
  unsigned flag = 0;
  bool ok = true;
  known = true;
  constexpr std::string_view kFacts[] = {
      "depth", "size", "logical", "max_hw_sectors_kb", "max_segments", "rotational", "fua"};
  if (std::find(std::begin(kFacts), std::end(kFacts), word.key) == std::end(kFacts)) {
    known = false;
    return true;
  }
  if (had_bio_) return fail(fmt::format("{}: only before the first bio", word.key));
  if (word.key == "depth") {
    ok = number(word.value, 1, sched::kMaxHardwareDepth, facts.depth);
  } else if (word.key == "size") {
    ok = size(word.value, facts.size);
    if (ok && facts.size.value < 4096) ok = fail("expected at least 4096");
    if (ok && facts.size.value > kMost) ok = fail("too large");
  } else if (word.key == "logical") {
    ok = number(word.value, 512, 4096, logical_);
    if (ok && !std::has_single_bit(logical_)) {
      ok = fail(fmt::format("{}: expected 512, 1024, 2048 or 4096", quote(word.value)));
    }
  } else if (word.key == "max_hw_sectors_kb") {
    ok = number(word.value, 4, 1U << 22U, max_hw_kb_);
  } else if (word.key == "max_segments") {
    ok = number(word.value, 1, 65535, facts.limits.max_segments);
  } else {
    ok = number(word.value, 0, 1, flag);
    (word.key == "fua" ? facts.limits.fua : facts.limits.rotational) = flag != 0;
  }
  if (!ok) problem_ = fmt::format("{}: {}", word.key, problem_);
  return ok;
}

void Parser::apply_facts() {
  sched::Limits& limits = scenario_.facts.limits;
  limits.logical_block = {logical_};
  limits.physical_block = {logical_};
  limits.io_min = {logical_};
  limits.max_hw_sectors = {max_hw_kb_ * 2};
  limits.max_sectors = std::min(limits.max_hw_sectors, sched::kMaxDefaultSectors);
}

// --- The disk and its users -------------------------------------------------------------------

bool Parser::scheduler(const Line& line) {
  if (line.words.size() < 2) return fail("scheduler: expected a name");
  if (!no_more(line, 2)) return false;
  add(Scheduler{std::string(line.words[1])});
  return true;
}

bool Parser::set(const Line& line) {
  if (line.words.size() < 3) return fail("set: expected ATTR VALUE");
  add(Set{std::string(line.words[1]), std::string(line.from(2))});
  return true;
}

bool Parser::group(const Line& line) {
  if (line.words.size() < 2) return fail("group: expected GROUP weight=N [parent=GROUP]");
  if (!name("group", line.words[1])) return false;
  Group made;
  made.name = line.words[1];
  for (std::size_t i = 2; i < line.words.size(); ++i) {
    const KeyValue word = split_key(line.words[i]);
    if (word.key == "weight" && word.has_value) {
      if (!number(word.value, 1, 1000, made.weight)) return false;
    } else if (word.key == "parent" && word.has_value) {
      if (!groups_.contains(word.value)) {
        return fail(fmt::format("{}: no such group", quote(word.value)));
      }
      made.parent = word.value;
    } else {
      return fail(fmt::format("group: unexpected {}, expected weight=N or parent=GROUP",
                              quote(line.words[i])));
    }
  }
  if (!groups_.insert(made.name).second) {
    return fail(fmt::format("{}: there is a group of this name", quote(made.name)));
  }
  add(std::move(made));
  return true;
}

bool Parser::task(const Line& line) {
  if (line.words.size() < 3) return fail("task: expected TASK KEY=VALUE...");
  if (!task_name(line.words[1])) return false;
  Task change;
  change.name = line.words[1];
  for (std::size_t i = 2; i < line.words.size(); ++i) {
    const KeyValue word = split_key(line.words[i]);
    if ((word.key == "prio" || word.key == "nice") && word.has_value) {
      if (change.priority) return fail("task: expected one of prio and nice, once");
      IoPriority& value = change.priority.emplace();
      if (!(word.key == "prio" ? priority(word.value, value) : nice(word.value, value))) {
        return false;
      }
    } else if (word.key == "worker" && word.has_value) {
      if (!number(word.value, 0, kLastWorker, change.worker.emplace())) return false;
      scenario_.workers = std::max(scenario_.workers, *change.worker + 1);
    } else if (word.key == "group" && word.has_value) {
      if (!groups_.contains(word.value)) {
        return fail(fmt::format("{}: no such group", quote(word.value)));
      }
      change.group = word.value;
    } else if (word.key == "weight" && word.has_value) {
      if (!number(word.value, 1, 1000, change.weight.emplace())) return false;
    } else {
      return fail(
          fmt::format("task: unexpected {}, expected prio=, nice=, worker=, group= or weight=",
                      quote(line.words[i])));
    }
  }
  if (change.group && change.weight) return fail("task: group and weight exclude each other");
  add(std::move(change));
  return true;
}

bool Parser::bios(const Line& line, bool each) {
  Submit made;
  made.each = each;
  made.task = kDefaultTask;
  std::size_t first = 1;
  if (line.words.size() > 1 && is_small_letter(line.words[1][0])) {
    if (!task_name(line.words[1])) return false;
    made.task = line.words[1];
    first = 2;
  }
  if (line.words.size() <= first) return fail(fmt::format("{}: expected a bio", line.words[0]));
  for (std::size_t i = first; i < line.words.size(); ++i) {
    if (!bio(line.words[i], false, made.bios.emplace_back())) return false;
  }
  had_bio_ = true;
  tasks_.insert(made.task);
  add(std::move(made));
  return true;
}

// --- Jobs -------------------------------------------------------------------------------------

bool Parser::job(const Line& line) {
  if (line.words.size() < 2) return fail("job: expected TASK rw=KIND bs=SIZE depth=N ...");
  if (!task_name(line.words[1])) return false;
  Job made;
  made.task = line.words[1];
  Bytes block;
  Bytes offset;
  Bytes region;
  std::set<std::string_view> seen;
  for (std::size_t i = 2; i < line.words.size(); ++i) {
    const KeyValue word = split_key(line.words[i]);
    if (!seen.insert(word.key).second) return fail(fmt::format("job: {} is there twice", word.key));
    if (!job_word(word, made, block, offset, region)) {
      problem_ = fmt::format("job: {}: {}", word.key, problem_);
      return false;
    }
  }
  for (const std::string_view key : {"rw", "bs", "depth"}) {
    if (!seen.contains(key)) return fail(fmt::format("job: {}= is missing", key));
  }
  if (!made.runtime && !made.count) return fail("job: runtime= or count= is missing");
  if (made.batch > made.depth) return fail("job: batch is larger than depth");
  if (made.async && (made.kind == JobKind::read || made.kind == JobKind::randread)) {
    return fail("job: async: somebody waits for every read");
  }
  if (!job_fits(made, block, offset, region)) return false;
  had_bio_ = true;
  tasks_.insert(made.task);
  add(std::move(made));
  return true;
}

bool Parser::job_word(const KeyValue& word, Job& job, Bytes& block, Bytes& offset, Bytes& region) {
  if (word.key == "rw") {
    constexpr std::string_view kKinds[] = {"read", "write", "randread", "randwrite", "randrw"};
    const auto* const kind = std::find(std::begin(kKinds), std::end(kKinds), word.value);
    if (kind == std::end(kKinds)) {
      return fail(fmt::format("{}: expected one of {}", quote(word.value), config::joined(kKinds)));
    }
    job.kind = static_cast<JobKind>(kind - std::begin(kKinds));
    return true;
  }
  if (word.key == "async") {
    job.async = true;
    return !word.has_value || fail("takes no value");
  }
  constexpr std::uint64_t kMostBios = 1U << 20U;
  if (word.key == "bs") return size(word.value, block);
  if (word.key == "depth") return number(word.value, 1, kMostBios, job.depth);
  if (word.key == "batch") return number(word.value, 1, kMostBios, job.batch);
  if (word.key == "runtime") return duration(word.value, {1}, job.runtime.emplace());
  if (word.key == "count") return number(word.value, 1, kMost, job.count.emplace());
  if (word.key == "think") return duration(word.value, {0}, job.think);
  if (word.key == "offset") return size(word.value, offset);
  if (word.key == "size") return size(word.value, region);
  if (word.key == "seed") {
    return number(word.value, 0, std::numeric_limits<std::uint64_t>::max(), job.seed);
  }
  constexpr std::string_view kKeys[] = {"rw",    "bs",     "depth", "batch", "runtime", "count",
                                        "think", "offset", "size",  "seed",  "async"};
  return fail("no such key" + config::suggestion(word.key, kKeys));
}

/// Everything in whole blocks, and inside of the device.
bool Parser::job_fits(Job& job, Bytes block, Bytes offset, Bytes region) {
  const Bytes disk = scenario_.facts.size;
  if (block.value == 0 || block.value % logical_ != 0) {
    return fail(
        fmt::format("job: bs: expected a multiple of the logical block, {} bytes", logical_));
  }
  if (offset.value % logical_ != 0) {
    return fail(
        fmt::format("job: offset: expected a multiple of the logical block, {} bytes", logical_));
  }
  if (offset >= disk) return fail("job: offset: behind the end of the device");
  if (region.value == 0) region = disk - offset;
  if (region > disk - offset) return fail("job: size: behind the end of the device");
  if (region < block) return fail("job: size: smaller than one bio");
  job.block = {block.value / sched::kSectorBytes};
  job.offset = {offset.value / sched::kSectorBytes};
  job.size = {region.value / sched::kSectorBytes};
  return true;
}

// --- Time and the device's doors --------------------------------------------------------------

bool Parser::quiesce(const Line& line) {
  if (!no_more(line, 1)) return false;
  if (quiesced_) return fail("quiesce: the queue is quiesced already");
  quiesced_ = true;
  add(Quiesce{});
  return true;
}

bool Parser::unquiesce(const Line& line) {
  if (!no_more(line, 1)) return false;
  if (!quiesced_) return fail("unquiesce: the queue is not quiesced");
  quiesced_ = false;
  add(Unquiesce{});
  return true;
}

bool Parser::release(const Line& line) {
  if (line.words.size() < 2) return fail("release: expected a number or all");
  if (!no_more(line, 2)) return false;
  if (!stalled_) return fail("release: the device is not stalled");
  Release made;
  if (line.words[1] == "all") {
    stalled_ = false;
  } else if (!number(line.words[1], 1, kMost, made.count.emplace())) {
    return false;
  }
  add(made);
  return true;
}

bool Parser::at(const Line& line) {
  if (line.words.size() < 2) return fail("at: expected TIME or +DURATION");
  if (!no_more(line, 2)) return false;
  At made;
  std::string_view text = line.words[1];
  made.relative = text.starts_with('+');
  if (made.relative) text.remove_prefix(1);
  if (!duration(text, {0}, made.time)) return false;
  if (!made.relative) {
    if (made.time < clock_) return fail("at: the clock never goes backwards");
    clock_ = made.time;
  } else if (made.time.ns > std::numeric_limits<std::int64_t>::max() - clock_.ns) {
    return fail("at: too far");
  } else {
    clock_ = clock_ + made.time;
  }
  add(made);
  return true;
}

bool Parser::drain(const Line& line) {
  if (!no_more(line, 1)) return false;
  add(Drain{});
  return true;
}

// --- Expectations -----------------------------------------------------------------------------

bool Parser::expect_dispatch(const Line& line) {
  ExpectDispatch made;
  for (std::size_t i = 1; i < line.words.size(); ++i) {
    if (!bio(line.words[i], true, made.bios.emplace_back())) return false;
  }
  add(std::move(made));
  return true;
}

bool Parser::expect(const Line& line) {
  if (line.words.size() < 3) return fail("expect: expected FILE LINE");
  add(Expect{std::string(line.words[1]), std::string(line.from(2))});
  return true;
}

bool Parser::expect_summary(const Line& line) {
  if (line.words.size() < 5) return fail("expect-summary: expected TASK KEY LOW HIGH");
  if (!no_more(line, 5)) return false;
  ExpectSummary made;
  made.task = line.words[1];
  made.key = line.words[2];
  made.low_text = line.words[3];
  made.high_text = line.words[4];
  if (made.task != kWholeDisk && !tasks_.contains(made.task)) {
    return fail(fmt::format("{}: no such task so far", quote(made.task)));
  }
  if (std::find(std::begin(kSummaryKeys), std::end(kSummaryKeys), made.key) ==
      std::end(kSummaryKeys)) {
    return fail(fmt::format("{}: no such key{}", quote(made.key),
                            config::suggestion(made.key, kSummaryKeys)));
  }
  if (!decimal(made.low_text, made.low) || !decimal(made.high_text, made.high)) return false;
  if (made.high < made.low) return fail("expect-summary: LOW is above HIGH");
  add(std::move(made));
  return true;
}

}  // namespace

config::Result<Scenario> parse_scenario(std::string_view text, std::string_view file) {
  Scenario scenario;
  Parser parser(file, scenario);
  unsigned number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ++number;
    if (!parser.take(Line(text.substr(0, end)), number)) {
      return tl::unexpected(
          config::Error{EINVAL, fmt::format("{}:{}: {}", file, number, parser.problem())});
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return scenario;
}

std::string format_object(Op op, Sector start, Sectors length, IoPriority priority, bool level) {
  if (op == Op::flush) return "F";
  std::string text =
      fmt::format("{}{}+{}", kOpLetters[static_cast<unsigned>(op)], start.value, length.value);
  constexpr unsigned kRealTime = 1;
  constexpr unsigned kBestEffort = 2;
  constexpr unsigned kIdle = 3;
  const unsigned io_class = priority.io_class();
  if (io_class == kRealTime) text += "/RT";
  if (io_class == kIdle) text += "/ID";
  if (!level || io_class == kIdle) return text;
  if (io_class == kBestEffort) text += "/BE";
  return text + fmt::format("{}", priority.level());
}

}  // namespace elevd::daemon::scenario
