// SPDX-License-Identifier: Apache-2.0
#include "bench.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace elevd::sched::test {
namespace {

[[noreturn]] void bad_notation(std::string_view word) {
  std::fprintf(stderr, "bench: cannot read '%.*s'\n", static_cast<int>(word.size()), word.data());
  std::abort();
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end != 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::uint64_t number(std::string_view text, std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) bad_notation(word);
  return value;
}

Op op_of(char letter, std::string_view word) {
  switch (letter) {
    case 'R':
      return Op::read;
    case 'W':
      return Op::write;
    case 'F':
      return Op::flush;
    case 'D':
      return Op::discard;
    case 'Z':
      return Op::write_zeroes;
    default:
      bad_notation(word);
  }
}

char letter_of(Op op) { return "RWFDZ"[static_cast<unsigned>(op)]; }

void apply(TestBio& bio, std::string_view attribute, std::string_view word) {
  if (attribute.starts_with('i')) {
    bio.issuer = number(attribute.substr(1), word);
    return;
  }
  const struct {
    std::string_view name;
    BioFlags flag;
  } flags[] = {{"fua", kBioFua},      {"preflush", kBioPreflush}, {"nomerge", kBioNoMerge},
               {"sync", kBioSync},    {"nowait", kBioNoWait},     {"head", kBioAtHead},
               {"single", kBioSingle}};
  for (const auto& row : flags) {
    if (attribute != row.name) continue;
    bio.flags = static_cast<BioFlags>(bio.flags | row.flag);
    return;
  }
  const struct {
    std::string_view name;
    unsigned io_class;
    unsigned level;
  } classes[] = {{"RT", 1, 4}, {"BE", 2, 4}, {"IDLE", 3, 0}};
  for (const auto& row : classes) {
    if (!attribute.starts_with(row.name)) continue;
    const std::string_view level = attribute.substr(row.name.size());
    bio.priority = IoPriority::make(
        row.io_class, level.empty() ? row.level : static_cast<unsigned>(number(level, word)));
    return;
  }
  bad_notation(word);
}

std::string place(Op op, Sector start, Sectors length) {
  if (op == Op::flush) return "F";
  return std::string(1, letter_of(op)) + std::to_string(start.value) + "+" +
         std::to_string(length.value);
}

}  // namespace

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string all;
  for (const std::string& part : parts) {
    if (!all.empty()) all += between;
    all += part;
  }
  return all;
}

std::string series(char op, std::uint64_t start, std::uint64_t length, std::int64_t step,
                   unsigned count) {
  std::string text;
  for (unsigned n = 0; n < count; ++n) {
    text += std::string(1, op) + std::to_string(start) + "+" + std::to_string(length) + " ";
    start += static_cast<std::uint64_t>(step);
  }
  return text;
}

std::string describe(const Bio& bio) { return place(bio.op, bio.start, bio.length); }
std::string describe(const Request& rq) { return place(rq.op, rq.start, rq.length); }

// --- FakeDriver -------------------------------------------------------------------------------

unsigned FakeDriver::budget(RequestQueue& queue) {
  const unsigned left = slots > used ? slots - used : 0;
  if (left == 0) owe(queue);
  return left;
}

std::string describe_briefly(const Request& rq) {
  std::string text = describe(rq);
  if (text.ends_with("+8")) text.resize(text.size() - 2);
  return text;
}

void FakeDriver::owe(RequestQueue& queue) {
  if (std::find(owed_.begin(), owed_.end(), &queue) == owed_.end()) owed_.push_back(&queue);
}

void FakeDriver::run_owed() {
  for (RequestQueue* queue : owed_) queue->run_later(bench_.worker(worker_index));
  owed_.clear();
}

bool FakeDriver::issue(Request& rq) {
  if (refuse != 0) {
    --refuse;
    owe(*rq.queue);
    return false;
  }
  bench_.issued_log.push_back(describe(rq));
  if (bench_.on_issue) bench_.on_issue(rq);
  if (bench_.complete_inline) {
    rq.queue->complete(bench_.worker(worker_index), rq, 0);
    return true;
  }
  ++used;
  rq.driver_data = this;
  bench_.held.push_back(&rq);
  return true;
}

// --- Recorder ---------------------------------------------------------------------------------

void Recorder::bio_event(TraceEvent event, const Bio& bio, std::uint64_t n, Instant) {
  std::string text = std::string(1, static_cast<char>(event)) + " ";
  text += event == TraceEvent::split ? place(bio.op, bio.start, Sectors{n}) : describe(bio);
  events.push_back(text);
  if (on_bio) on_bio(event, bio, n);
}

void Recorder::request_event(TraceEvent event, const Request& rq, Instant) {
  events.push_back(std::string(1, static_cast<char>(event)) + " " + describe(rq));
  if (on_request) on_request(event, rq);
}

void Recorder::plug_event(TraceEvent event, unsigned, std::uint64_t n, Instant) {
  std::string text(1, static_cast<char>(event));
  if (event == TraceEvent::unplugged) text += std::to_string(n);
  events.push_back(text);
}

// --- Bench ------------------------------------------------------------------------------------

Bench::Bench(Options options) : complete_inline(options.complete_inline) {
  for (unsigned w = 0; w < options.workers; ++w) {
    drivers_.push_back(std::make_unique<FakeDriver>(*this));
    drivers_.back()->worker_index = w;
  }
  peers_.resize(options.workers);
  for (unsigned w = 0; w < options.workers; ++w) {
    workers_.push_back(std::make_unique<Worker>(w, std::span<Worker* const>(peers_), *drivers_[w]));
    peers_[w] = workers_.back().get();
    workers_.back()->now = now_;
    workers_.back()->trace = &recorder;
  }
  for (const char* path : {"/a", "/a/b", "/c", "/c/d"}) {
    const GroupId made = groups_.id(path);
    if (made >= kGroups) std::abort();
  }
  for (unsigned q = 0; q < options.queues; ++q) {
    RequestQueue::Options queue;
    queue.limits = options.limits;
    queue.queue_depth = options.depth;
    queue.workers = options.workers;
    queue.groups = &groups_;
    queues_.push_back(std::make_unique<RequestQueue>(queue));
    if (options.elevator) queues_.back()->set_elevator(options.elevator());
  }
}

Bench::~Bench() {
  recorder.on_bio = nullptr;
  recorder.on_request = nullptr;
  on_issue = nullptr;
  drain();
}

TestBio& Bench::submit_one(std::string_view word, unsigned worker) {
  const std::vector<std::string_view> parts = split(word, '/');
  TestBio& bio = bios.emplace_back();
  bio.name = word;
  bio.issuer = worker + 1U;
  bio.group = group;
  bio.op = op_of(word[0], word);
  std::size_t queue_index = 0;
  if (bio.op == Op::flush) {
    bio.flags = kBioPreflush | kBioSync;
  } else {
    const std::vector<std::string_view> numbers = split(parts[0].substr(1), '+');
    bio.start = Sector{number(numbers[0], word)};
    bio.length = Sectors{numbers.size() > 1 ? number(numbers[1], word) : 8};
  }
  for (std::size_t n = 1; n < parts.size(); ++n) {
    if (parts[n][0] == 'q') {
      queue_index = number(parts[n].substr(1), word);
    } else {
      apply(bio, parts[n], word);
    }
  }
  queues_[queue_index]->submit(this->worker(worker), bio);
  return bio;
}

TestBio& Bench::submit(std::string_view text, unsigned worker) {
  TestBio* last = nullptr;
  for (const std::string_view word : split(text, ' ')) last = &submit_one(word, worker);
  if (last == nullptr) bad_notation(text);
  return *last;
}

TestBio& Bench::burst(std::string_view text, unsigned worker) {
  TestBio& last = submit(text, worker);
  flush_plug(worker);
  return last;
}

void Bench::each(std::string_view text, unsigned worker) {
  for (const std::string_view word : split(text, ' ')) {
    submit_one(word, worker);
    flush_plug(worker);
  }
}

void Bench::finish_at_device(Request& rq, int error, unsigned worker) {
  auto& from = *static_cast<FakeDriver*>(rq.driver_data);
  RequestQueue& queue = *rq.queue;
  --from.used;
  queue.complete(this->worker(worker), rq, error);
  if (from.slots > from.used) from.run_owed();
}

void Bench::complete(int error, unsigned worker) { complete_at(0, error, worker); }

void Bench::complete_at(std::size_t index, int error, unsigned worker) {
  if (index >= held.size()) bad_notation("complete: nothing is held there");
  Request& rq = *held[index];
  held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
  finish_at_device(rq, error, worker);
}

void Bench::complete_request(std::string_view what, int error, unsigned worker) {
  for (std::size_t n = 0; n < held.size(); ++n) {
    if (describe(*held[n]) == what) return complete_at(n, error, worker);
  }
  bad_notation(what);
}

void Bench::release_one() {
  settle();
  if (!held.empty()) complete();
  settle();
}

void Bench::release_all() {
  settle();
  while (!held.empty()) release_one();
}

void Bench::step(std::string_view word) {
  if (word == ";") advance({10'000'000});
  if (word == "!") release_one();
  if (word == "*" || word == "|") release_all();
  if (word == "quiesce") queue().quiesce();
  if (word == "unquiesce") queue().unquiesce(worker());
}

void Bench::complete_all(int error, unsigned worker) {
  std::vector<Request*> now_held;
  now_held.swap(held);
  for (Request* rq : now_held) finish_at_device(*rq, error, worker);
}

void Bench::lift_refusals() {
  for (const auto& driver : drivers_) {
    driver->refuse = 0;
    driver->slots = 1U << 20U;
    driver->run_owed();
  }
}

void Bench::each_contended(std::string_view text, unsigned worker) {
  FakeDriver& device = driver(worker);
  const unsigned slots = device.slots;
  {
    const LockGuard guard(QueueTest::elevator_lock(queue()));
    device.slots = 0;  // nobody takes the lock to dispatch
    each(text, worker);
  }
  device.slots = slots;
  device.run_owed();
}

void Bench::deliver(unsigned worker) {
  MailNode* node = this->worker(worker).mailbox.take();
  while (node != nullptr) {
    MailNode* next = node->next;
    this->worker(worker).take_mail(*node);
    node = next;
  }
}

void Bench::answer(unsigned worker) {
  BioList& finished = this->worker(worker).finished;
  while (!finished.empty()) {
    auto& bio = static_cast<TestBio&>(finished.front());
    finished.pop_front();
    ++bio.answers;
    bio.answer = bio.error.load();
    bio.answered_by = worker;
    answered_log.push_back(bio.name + (bio.answer == 0 ? "" : "=" + std::to_string(bio.answer)));
    static_cast<void>(bio.queue->leave(this->worker(worker)));
  }
}

void Bench::turn(unsigned worker) {
  deliver(worker);
  this->worker(worker).resume_woken();
  this->worker(worker).flush_plug(false);
  this->worker(worker).run_queues();
  answer(worker);
}

void Bench::settle() {
  for (bool again = true; again;) {
    again = false;
    for (unsigned w = 0; w < workers(); ++w) {
      turn(w);
      again = again || worker(w).has_work() || !worker(w).mailbox.empty();
    }
    for (unsigned w = 0; w < workers(); ++w) again = again || !worker(w).mailbox.empty();
  }
}

void Bench::drain() {
  lift_refusals();
  settle();
  while (!held.empty() || wait_for_timer()) {
    complete_all();
    lift_refusals();
    settle();
  }
}

bool Bench::wait_for_timer() {
  const std::size_t before = issued_log.size();
  for (const auto& queue : queues_) {
    const auto at = queue->wake_at();
    if (!at) continue;
    if (now_ < *at) advance(*at - now_);
    queue->run(worker());
  }
  return issued_log.size() != before;
}

void Bench::advance(Duration by) {
  now_ = now_ + by;
  for (const auto& worker : workers_) worker->now = now_;
}

std::string Bench::events(std::string_view letters) const {
  std::vector<std::string> chosen;
  for (const std::string& event : recorder.events) {
    if (letters.find(event[0]) != std::string_view::npos) chosen.push_back(event);
  }
  return join(chosen, ", ");
}

std::size_t Bench::count(char letter) const {
  return static_cast<std::size_t>(
      std::count_if(recorder.events.begin(), recorder.events.end(),
                    [letter](const std::string& event) { return event[0] == letter; }));
}

std::string Bench::issued() const { return join(issued_log, " "); }
std::string Bench::answered() const { return join(answered_log, " "); }

std::string Bench::held_text() const {
  std::vector<std::string> all;
  for (const Request* rq : held) all.push_back(describe(*rq));
  return join(all, " ");
}

void Bench::clear() {
  recorder.events.clear();
  issued_log.clear();
  answered_log.clear();
}

}  // namespace elevd::sched::test
