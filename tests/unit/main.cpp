// SPDX-License-Identifier: Apache-2.0
// The main of test programs that need nothing before doctest.
#include <doctest/doctest.h>

int main(int argc, char** argv) { return doctest::Context(argc, argv).run(); }
