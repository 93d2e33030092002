// SPDX-License-Identifier: Apache-2.0
// The directory of a disk: docs/spec/sysfs.md sections 6 and 7.
#include "sysfs/disk.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <ostream>
#include <sstream>

#include "bench.hpp"

namespace elevd::sysfs {
namespace {

/// Takes every bio at once, completes on demand.
class Driver final : public sched::Driver {
 public:
  unsigned budget(sched::RequestQueue&) override { return 64; }
  bool issue(sched::Request& rq) override {
    issued.push_back(&rq);
    return true;
  }
  std::vector<sched::Request*> issued;
};

TEST_SUITE("disk attributes") {
  TEST_CASE("facts") {
    Bench bench;
    for (const auto& [name, shown] : std::initializer_list<std::pair<const char*, const char*>>{
             {"size", "2097152\n"},
             {"ro", "0\n"},
             {"removable", "0\n"},
             {"range", "1\n"},
             {"ext_range", "256\n"},
             {"hidden", "0\n"},
             {"alignment_offset", "0\n"},
             {"discard_alignment", "0\n"},
             {"diskseq", "11\n"},
             {"events", "media_change\n"},
             {"events_async", ""},
             {"events_poll_msecs", "-1\n"},
             {"mq/0/nr_tags", "128\n"},
             {"mq/0/nr_reserved_tags", "0\n"},
             {"mq/0/cpu_list", "0, 1\n"},
             {"elevd/backing_file", "/srv/disk0.img\n"},
             {"elevd/dio", "0\n"},
         }) {
      CAPTURE(name);
      CHECK(bench.show(name) == shown);
    }
    bench.disk.sectors = 8;
    CHECK(bench.show("size") == "8\n");
  }

  TEST_CASE("events_poll_msecs finds no device to poll") {
    const Bench bench;
    check_rows(bench, "events_poll_msecs",
               {{"-1", ENODEV, "-1\n"},
                {"0\n", ENODEV, "-1\n"},
                {"2000", ENODEV, "-1\n"},
                {"-2", EINVAL, "-1\n"},
                {"x", EINVAL, "-1\n"}});
  }

  TEST_CASE("stat is 17 columns of at least 8, 153 bytes with small numbers") {
    const Bench bench;
    const std::string stat = bench.show("stat");
    CHECK(stat.size() == 153);
    std::istringstream words(stat);
    std::string word;
    int count = 0;
    while (words >> word) ++count;
    CHECK(count == 17);
    for (std::size_t i = 0; i < 17; ++i) CHECK(stat.substr(i * 9, 8) == "       0");
    CHECK(stat.back() == '\n');
  }

  TEST_CASE("inflight is two columns of 8") {
    const Bench bench;
    CHECK(bench.show("inflight") == "       0        0\n");
  }

  TEST_CASE("a read that takes 800 ms is seen in both files meanwhile and after") {
    Bench bench;
    Driver driver;
    sched::Worker* peers[1];
    sched::Worker worker(0, peers, driver);
    peers[0] = &worker;
    worker.now = sched::Instant{1'000'000'000};
    bench.disk.now = [&worker] { return worker.now; };

    sched::Bio bio;
    bio.op = sched::Op::read;
    bio.length = sched::Sectors{8};
    bench.queue.submit(worker, bio);
    worker.flush_plug(false);
    REQUIRE(driver.issued.size() == 1);
    CHECK(bench.show("inflight") == "       1        0\n");
    CHECK(bench.show("stat").substr(8 * 9, 8) == "       1");

    worker.now = worker.now + sched::Duration{800'000'000};
    bench.queue.complete(worker, *driver.issued.front(), 0);
    CHECK(bench.show("inflight") == "       0        0\n");
    CHECK(bench.show("stat") ==
          "       1        0        8      800        0        0        0        0        0"
          "      800      800        0        0        0        0        0        0\n");
    worker.finished.clear();
    (void)bench.queue.leave(worker);
  }
}

}  // namespace
}  // namespace elevd::sysfs
