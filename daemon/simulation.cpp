// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulated_disk.hpp"

namespace elevd::daemon {
namespace {

using scenario::BioWords;
using scenario::JobKind;
using sched::Bio;
using sched::Duration;
using sched::Instant;
using sched::Op;
using sched::Request;
using sched::TraceEvent;

struct SimulatedTask;

/// A job that runs.
struct RunningJob {
  const scenario::Job* words = nullptr;
  SimulatedTask* task = nullptr;
  Instant started;
  std::uint64_t free_places = 0;
  std::uint64_t submitted = 0;
  sched::Sectors position;  ///< sequential: of the next bio, from the start of the region
  std::uint64_t random = 0;

  [[nodiscard]] bool ended(Instant now) const {
    if (words->runtime && !(now < started + *words->runtime)) return true;
    return words->count && submitted >= *words->count;
  }
  /// How many go into the next plug.
  [[nodiscard]] std::uint64_t next_batch() const {
    if (!words->count) return words->batch;
    return std::min(words->batch, *words->count - submitted);
  }
};

struct SimulatedBio : Bio {
  SimulatedTask* task = nullptr;
  RunningJob* job = nullptr;
  Instant queued;
  sched::Sectors whole;  ///< as submitted
  unsigned worker = 0;
  bool reported = false;  ///< Q was
};

SimulatedBio& simulated(Bio& bio) { return static_cast<SimulatedBio&>(bio.root()); }
const SimulatedBio& simulated(const Bio& bio) {
  return static_cast<const SimulatedBio&>(bio.root());
}

/// Bios that a task submits in one plug, or in one each.
struct Burst {
  std::vector<BioWords> bios;
  std::size_t next = 0;
  bool each = false;
  unsigned worker = 0;
  sched::GroupId group = sched::kRootGroup;
  RunningJob* job = nullptr;
};

/// A process that submits one bio after the other (docs/spec/scenario.md section 3, rule 5).
struct SimulatedTask {
  unsigned number = 0;  ///< of the output
  sched::IoPriority priority;
  sched::GroupId group = sched::kRootGroup;
  unsigned worker = 0;
  std::deque<Burst> bursts;  ///< the first one is being submitted
  std::deque<RunningJob> jobs;
  SimulatedBio* waiting = nullptr;  ///< the one everything else waits behind
  bool at_gate = false;             ///< it waits for the gate, not for a tag
  bool woken = false;               ///< and may go on now
  bool able = false;                ///< it is in the list of those that can go on
};

/// One step of splitmix64.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

class Simulation : private SimulatedDisk::Listener, private sched::TraceSink {
 public:
  Simulation(const scenario::Scenario& scenario, OutputOptions options);

  SimulationResult run(OutputOptions options);
  /// Lets everything that is left go, unseen. False: it cannot, the objects must stay.
  [[nodiscard]] bool close();

 private:
  // What the disk says.
  void bio_woken(Bio& bio) override;
  void bio_finished(Bio& bio) override;
  void gate_opened() override;
  void bio_event(TraceEvent event, const Bio& bio, std::uint64_t n, Instant now) override;
  void request_event(TraceEvent event, const Request& rq, Instant now) override;
  void plug_event(TraceEvent event, unsigned worker, std::uint64_t n, Instant now) override;
  void note_merge(unsigned task);
  [[nodiscard]] unsigned task_of(const Request& rq);

  // Tasks.
  SimulatedTask& task(const std::string& name);
  SimulatedBio& make_bio(SimulatedTask& task, const Burst& burst, const BioWords& words);
  void make_able(SimulatedTask& task);
  void go_on(SimulatedTask& task);
  [[nodiscard]] bool finish_waiting(SimulatedTask& task);
  [[nodiscard]] bool enter(SimulatedTask& task, SimulatedBio& bio);
  [[nodiscard]] bool next_burst(SimulatedTask& task);
  void draw(RunningJob& job, BioWords& bio);
  void free_place(RunningJob& job);

  // Time.
  [[nodiscard]] std::optional<Instant> next_event() const;
  void settle();
  void run_until(Instant end);
  void drain();

  // Statements. False: the run ends here.
  bool act(const scenario::Device& change);
  bool act(const scenario::Scheduler& change);
  bool act(const scenario::Set& change);
  bool act(const scenario::Group& group);
  bool act(const scenario::Task& change);
  bool act(const scenario::Submit& submit);
  bool act(const scenario::Job& job);
  bool act(const scenario::Quiesce&);
  bool act(const scenario::Unquiesce&);
  bool act(const scenario::Release& release);
  bool act(const scenario::At& at);
  bool act(const scenario::Drain&);
  bool act(const scenario::ExpectDispatch& expect);
  bool act(const scenario::Expect& expect);
  bool act(const scenario::ExpectSummary& expect);
  bool store(const std::string& attribute, const std::string& value);
  bool bad(unsigned line, const std::string& what);
  void unexpected(const std::string& expected, const std::string& got);
  [[nodiscard]] bool stuck();

  const scenario::Scenario& scenario_;
  SimulationOutput output_;
  bool recording_ = true;
  bool closing_ = false;  ///< nothing new is submitted
  bool keeps_dispatches_;
  std::map<std::string, SimulatedTask> tasks_;
  struct NamedGroup {
    std::string path;
    sched::GroupId id = sched::kRootGroup;
  };
  std::map<std::string, NamedGroup> groups_;
  std::deque<SimulatedBio> bios_;
  std::vector<SimulatedBio*> free_bios_;
  std::deque<SimulatedTask*> able_;
  std::deque<SimulatedTask*> gated_;
  struct Place {
    Instant due;
    std::uint64_t number = 0;
    RunningJob* job = nullptr;
    bool operator>(const Place& other) const {
      return due != other.due ? other.due < due : number > other.number;
    }
  };
  std::priority_queue<Place, std::vector<Place>, std::greater<>> places_;  ///< of jobs that think
  std::uint64_t places_made_ = 0;
  unsigned current_task_ = 0;
  std::unordered_map<const Request*, unsigned> request_tasks_;
  std::array<std::uint64_t, sched::kMergePoints> merges_seen_{};
  std::vector<EventObject> dispatches_;  ///< since the last expect-dispatch
  unsigned line_ = 0;
  int status_ = 0;
  std::string messages_;
  SimulatedDisk disk_;
};

Simulation::Simulation(const scenario::Scenario& scenario, OutputOptions options)
    : scenario_(scenario),
      output_(options),
      keeps_dispatches_(std::any_of(scenario.statements.begin(), scenario.statements.end(),
                                    [](const scenario::Statement& statement) {
                                      return std::holds_alternative<scenario::ExpectDispatch>(
                                          statement.action);
                                    })),
      disk_(scenario, *this, *this) {}

// --- Events -----------------------------------------------------------------------------------

void Simulation::bio_event(TraceEvent event, const Bio& bio, std::uint64_t n, Instant now) {
  const SimulatedBio& root = simulated(bio);
  if (event == TraceEvent::queued && root.reported) return;
  if (!recording_) return;
  const EventObject object{bio.op, bio.start, bio.length, bio.priority.chosen()};
  if (event == TraceEvent::back_merged || event == TraceEvent::front_merged) {
    note_merge(root.task->number);
  }
  output_.event(event, &object, root.task->number, n, now);
}

/// The task of its first bio; of a FLUSH, of the first one that waits for it, whose tag it has.
unsigned Simulation::task_of(const Request& rq) {
  if (rq.first != nullptr) {
    return request_tasks_[&rq] = simulated(*rq.first).task->number;
  }
  if ((rq.flags & sched::kRqFlush) != 0) {
    const auto tag = static_cast<std::uint32_t>(rq.internal_tag >= 0 ? rq.internal_tag : rq.tag);
    const Request& waiter = disk_.queue().allocation_tags().request(tag);
    if (waiter.first != nullptr) return simulated(*waiter.first).task->number;
  }
  const auto known = request_tasks_.find(&rq);
  return known == request_tasks_.end() ? current_task_ : known->second;
}

void Simulation::request_event(TraceEvent event, const Request& rq, Instant now) {
  if (!recording_) return;
  const unsigned task = task_of(rq);
  const EventObject object{rq.op, rq.start, rq.length, rq.priority.chosen()};
  if (event == TraceEvent::request_merged) note_merge(task);
  if (event == TraceEvent::issued && keeps_dispatches_) dispatches_.push_back(object);
  output_.event(event, &object, task, 0, now);
}

void Simulation::plug_event(TraceEvent event, unsigned, std::uint64_t n, Instant now) {
  if (recording_) output_.event(event, nullptr, current_task_, n, now);
}

/// Where the merge that is being reported was made: the counter that has grown.
void Simulation::note_merge(unsigned task) {
  const sched::Stats stats = disk_.queue().stats(disk_.now());
  for (unsigned point = 0; point < sched::kMergePoints; ++point) {
    if (stats.merge_hits[point] == merges_seen_[point]) continue;
    ++merges_seen_[point];
    output_.merged(task, static_cast<sched::MergePoint>(point));
    return;
  }
}

void Simulation::bio_woken(Bio& bio) {
  SimulatedTask& task = *simulated(bio).task;
  task.woken = true;
  make_able(task);
}

void Simulation::gate_opened() {
  for (SimulatedTask* task : gated_) {
    task->woken = true;
    make_able(*task);
  }
  gated_.clear();
}

void Simulation::bio_finished(Bio& finished) {
  SimulatedBio& bio = simulated(finished);
  const bool moved = bio.error.load(std::memory_order_relaxed) == 0;
  if (recording_) {
    output_.completed(bio.task->number, moved ? bio.whole.bytes() : sched::Bytes{}, bio.queued,
                      disk_.now());
  }
  free_bios_.push_back(&bio);
  if (bio.job == nullptr) return;
  if (bio.job->words->think.ns == 0) {
    free_place(*bio.job);
  } else {
    places_.push({disk_.now() + bio.job->words->think, places_made_++, bio.job});
  }
}

// --- Tasks ------------------------------------------------------------------------------------

SimulatedTask& Simulation::task(const std::string& name) {
  const auto [at, made] = tasks_.try_emplace(name);
  if (made) at->second.number = output_.add_task(name);
  return at->second;
}

void Simulation::make_able(SimulatedTask& task) {
  if (task.able) return;
  task.able = true;
  able_.push_back(&task);
}

void Simulation::free_place(RunningJob& job) {
  ++job.free_places;
  if (job.task->waiting == nullptr) make_able(*job.task);
}

SimulatedBio& Simulation::make_bio(SimulatedTask& task, const Burst& burst, const BioWords& words) {
  if (free_bios_.empty()) free_bios_.push_back(&bios_.emplace_back());
  SimulatedBio& bio = *free_bios_.back();
  free_bios_.pop_back();
  bio.op = words.op;
  bio.flags = words.flags;
  if (burst.each) bio.flags |= sched::kBioSingle;
  bio.priority = words.priority.value_or(task.priority);
  bio.start = words.start;
  bio.length = words.length;
  bio.whole = words.length;
  bio.issuer = task.number + 1;
  bio.group = burst.group;
  bio.next = nullptr;
  bio.task = &task;
  bio.job = burst.job;
  bio.queued = disk_.now();
  bio.worker = burst.worker;
  bio.reported = false;
  return bio;
}

/// Submits until it has to wait, or has nothing more to submit.
void Simulation::go_on(SimulatedTask& task) {
  current_task_ = task.number;
  if (task.waiting != nullptr && !finish_waiting(task)) return;
  while (!task.bursts.empty() || next_burst(task)) {
    Burst& burst = task.bursts.front();
    while (burst.next < burst.bios.size()) {
      SimulatedBio& bio = make_bio(task, burst, burst.bios[burst.next++]);
      if (!enter(task, bio)) return;
      if (burst.each) disk_.end_plug(burst.worker, false);
    }
    disk_.end_plug(burst.worker, false);
    task.bursts.pop_front();
  }
}

/// False: `bio` waits, and the task with it; its plug is empty.
bool Simulation::enter(SimulatedTask& task, SimulatedBio& bio) {
  task.waiting = &bio;
  task.at_gate = disk_.gate_closed();
  if (task.at_gate) {
    bio_event(TraceEvent::queued, bio, 0, disk_.now());
    bio.reported = true;
    gated_.push_back(&task);
    disk_.end_plug(bio.worker, true);
    return false;
  }
  if (disk_.submit(bio.worker, bio)) return false;
  task.waiting = nullptr;
  return true;
}

/// The bio that waits goes on if it was woken. False: it still waits, or again.
bool Simulation::finish_waiting(SimulatedTask& task) {
  if (!task.woken) return false;
  task.woken = false;
  SimulatedBio& bio = *task.waiting;
  const unsigned worker = bio.worker;
  if (task.at_gate) {
    if (!enter(task, bio)) return false;
  } else if (disk_.resume(worker, bio)) {
    return false;
  }
  task.waiting = nullptr;
  if (!task.bursts.empty() && task.bursts.front().each) disk_.end_plug(worker, false);
  return true;
}

bool Simulation::next_burst(SimulatedTask& task) {
  if (closing_) return false;
  for (RunningJob& job : task.jobs) {
    if (job.ended(disk_.now())) continue;
    const std::uint64_t n = job.next_batch();
    if (job.free_places < n) continue;
    job.free_places -= n;
    Burst burst;
    burst.worker = task.worker;
    burst.group = task.group;
    burst.job = &job;
    for (std::uint64_t i = 0; i < n; ++i) draw(job, burst.bios.emplace_back());
    job.submitted += n;
    task.bursts.push_back(std::move(burst));
    return true;
  }
  return false;
}

/// The next bio of a job (docs/spec/scenario.md section 3, rule 9).
void Simulation::draw(RunningJob& job, BioWords& bio) {
  const scenario::Job& words = *job.words;
  constexpr std::uint64_t kTopBit = 1ULL << 63U;
  bool write = words.kind == JobKind::write || words.kind == JobKind::randwrite;
  bio.length = words.block;
  if (words.kind == JobKind::read || words.kind == JobKind::write) {
    if (job.position + words.block > words.size) job.position = {};
    bio.start = words.offset + job.position;
    job.position += words.block;
  } else {
    const std::uint64_t number = next_random(job.random);
    const std::uint64_t block = number % (words.size.value / words.block.value);
    bio.start = words.offset + sched::Sectors{block * words.block.value};
    if (words.kind == JobKind::randrw) write = (number & kTopBit) != 0;
  }
  bio.op = write ? Op::write : Op::read;
  bio.flags = write && words.async ? sched::BioFlags{0} : sched::kBioSync;
}

// --- Time -------------------------------------------------------------------------------------

std::optional<Instant> Simulation::next_event() const {
  auto at = disk_.next_event();
  if (!places_.empty() && (!at || places_.top().due < *at)) at = places_.top().due;
  return at;
}

/// Everything due by now, in the order of docs/spec/scenario.md section 3, rule 2.
void Simulation::settle() {
  for (bool again = true; again;) {
    again = false;
    while (disk_.complete_due()) again = true;
    if (disk_.run_timer()) again = true;
    while (!places_.empty() && !(disk_.now() < places_.top().due)) {
      RunningJob& job = *places_.top().job;
      places_.pop();
      free_place(job);
      again = true;
    }
    std::deque<SimulatedTask*> able;
    able.swap(able_);
    for (SimulatedTask* task : able) {
      task->able = false;
      go_on(*task);
      again = true;
    }
  }
}

void Simulation::run_until(Instant end) {
  for (auto at = next_event(); at && !(end < *at); at = next_event()) {
    disk_.set_now(std::max(*at, disk_.now()));
    settle();
  }
  disk_.set_now(end);
}

void Simulation::drain() {
  for (auto at = next_event(); at; at = next_event()) {
    disk_.set_now(std::max(*at, disk_.now()));
    settle();
  }
}

// --- Statements -------------------------------------------------------------------------------

bool Simulation::bad(unsigned line, const std::string& what) {
  messages_ += fmt::format("{}:{}: {}\n", scenario_.file, line, what);
  status_ = kSimulationBad;
  return false;
}

void Simulation::unexpected(const std::string& expected, const std::string& got) {
  messages_ += fmt::format("{}:{}: expected {}, got {}\n", scenario_.file, line_, expected, got);
  status_ = kSimulationFailed;
}

bool Simulation::store(const std::string& attribute, const std::string& value) {
  const int error = disk_.store(attribute, value, line_);
  if (error != 0) return bad(line_, fmt::format("{}: {}", attribute, std::strerror(error)));
  return true;
}

bool Simulation::act(const scenario::Device& change) {
  if (change.stall) disk_.model().stall();
  disk_.model().set_timing(change.timing, disk_.now());
  return true;
}

bool Simulation::act(const scenario::Scheduler& change) { return store("scheduler", change.name); }

bool Simulation::act(const scenario::Set& change) { return store(change.attribute, change.value); }

bool Simulation::act(const scenario::Group& group) {
  NamedGroup& made = groups_[group.name];
  made.path = (group.parent.empty() ? "" : groups_[group.parent].path) + "/" + group.name;
  made.id = disk_.make_group(made.path, group.weight);
  return true;
}

bool Simulation::act(const scenario::Task& change) {
  SimulatedTask& named = task(change.name);
  if (change.priority) named.priority = *change.priority;
  if (change.worker) named.worker = *change.worker;
  if (change.group) named.group = groups_[*change.group].id;
  // A path that no group line can make.
  if (change.weight) named.group = disk_.make_group("/task." + change.name, *change.weight);
  return true;
}

bool Simulation::act(const scenario::Submit& submit) {
  SimulatedTask& named = task(submit.task);
  Burst burst;
  burst.bios = submit.bios;
  for (BioWords& bio : burst.bios) bio.priority = bio.priority.value_or(named.priority);
  burst.each = submit.each;
  burst.worker = named.worker;
  burst.group = named.group;
  named.bursts.push_back(std::move(burst));
  if (named.waiting == nullptr) go_on(named);
  return true;
}

bool Simulation::act(const scenario::Job& job) {
  SimulatedTask& named = task(job.task);
  RunningJob& running = named.jobs.emplace_back();
  running.words = &job;
  running.task = &named;
  running.started = disk_.now();
  running.free_places = job.depth;
  running.random = job.seed;
  if (named.waiting == nullptr) go_on(named);
  return true;
}

bool Simulation::act(const scenario::Quiesce&) {
  disk_.quiesce();
  return true;
}

bool Simulation::act(const scenario::Unquiesce&) {
  disk_.unquiesce();
  return true;
}

bool Simulation::act(const scenario::Release& release) {
  const std::uint64_t most = release.count.value_or(disk_.model().size());
  for (std::uint64_t n = 0; n < most && disk_.release_one(); ++n) {
  }
  if (!release.count) disk_.model().end_stall(disk_.now());
  return true;
}

bool Simulation::act(const scenario::At& at) {
  const Instant end = (at.relative ? disk_.now() : Instant{}) + at.time;
  if (end < disk_.now()) {
    return bad(line_, fmt::format("at: the clock is at {} already", format_seconds(disk_.now())));
  }
  run_until(end);
  return true;
}

bool Simulation::act(const scenario::Drain&) {
  drain();
  return true;
}

// --- Expectations -----------------------------------------------------------------------------

bool Simulation::act(const scenario::ExpectDispatch& expect) {
  const auto matches = [](const EventObject& got, const BioWords& words) {
    const sched::IoPriority wanted = words.priority.value_or(sched::IoPriority{});
    return got.op == words.op &&
           (got.op == Op::flush || (got.start == words.start && got.length == words.length)) &&
           (got.op == Op::flush || got.priority.io_class() == wanted.io_class()) &&
           (!words.has_level || got.priority.level() == wanted.level());
  };
  const bool as_expected = std::equal(dispatches_.begin(), dispatches_.end(), expect.bios.begin(),
                                      expect.bios.end(), matches);
  if (!as_expected) {
    bool levels = false;
    std::string wanted;
    for (const BioWords& words : expect.bios) {
      levels = levels || words.has_level;
      wanted += " " + scenario::format_object(words.op, words.start, words.length,
                                              words.priority.value_or(sched::IoPriority{}),
                                              words.has_level);
    }
    std::string got;
    for (const EventObject& object : dispatches_) {
      got += " " + scenario::format_object(object.op, object.start, object.length, object.priority,
                                           levels);
    }
    unexpected(wanted.empty() ? "none" : wanted.substr(1), got.empty() ? "none" : got.substr(1));
  }
  dispatches_.clear();
  return true;
}

bool Simulation::act(const scenario::Expect& expect) {
  const auto text = disk_.show(expect.file);
  if (!text) {
    unexpected(fmt::format("{}: {}", expect.file, expect.line), std::strerror(text.error()));
    return true;
  }
  std::string got;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line == expect.line) return true;
    got += (got.empty() ? "" : " | ") + std::string(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  unexpected(fmt::format("{}: {}", expect.file, expect.line), got.empty() ? "nothing" : got);
  return true;
}

bool Simulation::act(const scenario::ExpectSummary& expect) {
  std::optional<unsigned> number;
  if (expect.task != scenario::kWholeDisk) number = task(expect.task).number;
  const std::string text = output_.summary_value(number, expect.key);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  if (value < expect.low || value > expect.high) {
    unexpected(fmt::format("{} {} from {} to {}", expect.task, expect.key, expect.low_text,
                           expect.high_text),
               text);
  }
  return true;
}

// --- The run ----------------------------------------------------------------------------------

bool Simulation::stuck() {
  if (disk_.queue().quiesced() || disk_.model().stalled()) return false;
  return disk_.queue().inside() != 0 || !gated_.empty();
}

SimulationResult Simulation::run(OutputOptions options) {
  bool goes_on = true;
  for (const scenario::Statement& statement : scenario_.statements) {
    line_ = statement.line;
    goes_on = std::visit([this](const auto& action) { return act(action); }, statement.action);
    if (!goes_on) break;
    settle();
    if (disk_.change_error()) break;
  }
  if (goes_on && !disk_.change_error()) drain();
  if (const auto& error = disk_.change_error(); goes_on && error) {
    goes_on =
        bad(error->line, fmt::format("{}: {}", error->attribute, std::strerror(error->error)));
  }
  if (goes_on && stuck()) {
    messages_ += fmt::format("{}: stuck at {}: {} bios wait and nothing is due\n", scenario_.file,
                             format_seconds(disk_.now()), disk_.queue().inside() + gated_.size());
    status_ = kSimulationStuck;
  }
  SimulationResult result{status_, output_.text(), messages_};
  if (goes_on && options.kind == OutputKind::summary) result.output += output_.summary();
  return result;
}

bool Simulation::close() {
  recording_ = false;
  closing_ = true;
  for (auto& [name, task] : tasks_) {
    // What stands behind a waiting bio is never submitted.
    while (task.bursts.size() > 1) task.bursts.pop_back();
    if (!task.bursts.empty()) task.bursts.front().bios.resize(task.bursts.front().next);
  }
  if (disk_.queue().quiesced()) disk_.unquiesce();
  do {
    settle();
  } while (disk_.release_one());
  return disk_.queue().inside() == 0 && disk_.queue().idle();
}

}  // namespace

SimulationResult simulate(const scenario::Scenario& scenario, OutputOptions options) {
  auto simulation = std::make_unique<Simulation>(scenario, options);
  SimulationResult result = simulation->run(options);
  // A stuck elevator cannot be taken apart: its objects would say so by ending the program.
  if (!simulation->close()) static_cast<void>(simulation.release());
  return result;
}

SimulationResult simulate_text(std::string_view text, std::string_view file,
                               OutputOptions options) {
  const auto scenario = scenario::parse_scenario(text, file);
  if (!scenario) return {kSimulationBad, {}, scenario.error().what + "\n"};
  return simulate(*scenario, options);
}

}  // namespace elevd::daemon
