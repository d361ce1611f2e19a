#include "launcher/stacks/python_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/stacks/stack_text.h"
#include "tests/unit/stacks/probe.h"

namespace ddprun::stacks {
namespace python_frames_test {

StackFrame Native(const std::string& function, const std::string& image) {
  return {function, "", 0, image};
}
StackFrame Python(const std::string& function) { return {function, "a.py", 1, "python"}; }

std::vector<std::string> Names(const std::vector<StackFrame>& frames) {
  std::vector<std::string> names;
  for (const StackFrame& frame : frames) names.push_back(frame.function);
  return names;
}

TEST(WithPythonTest, PythonFramesTakeThePlaceOfTheInterpreters) {
  const std::vector<StackFrame> native = {Native("clock_nanosleep", "libc.so.6"),
                                          Native("time_sleep", "python3.11"),
                                          Native("_PyEval_EvalFrameDefault", "python3.11"),
                                          Native("PyObject_Call", "python3.11"),
                                          Native("torch::call", "libtorch.so"),
                                          Native("cfunction_call", "python3.11"),
                                          Native("_PyEval_EvalFrameDefault", "python3.11"),
                                          Native("Py_RunMain", "python3.11"),
                                          Native("main", "launcher")};
  const std::vector<PythonFrame> python = {
      {Python("inner"), false},
      {{"_load", "<frozen importlib._bootstrap>", 7, "python"}, false},
      {Python("outer"), true},
      {Python("<module>"), true}};
  EXPECT_THAT(Names(WithPython(native, python)),
              testing::ElementsAre("clock_nanosleep", "time_sleep", "inner", "outer", "torch::call",
                                   "<module>", "main"));
  EXPECT_EQ(WithPython(native, {}), native);
}

TEST(WithPythonTest, WhereTheInterpreterIsNotRecognizedNoPythonFrameIsLost) {
  EXPECT_THAT(Names(WithPython({Native("", "libc.so.6")}, {{Python("inner"), true}})),
              testing::ElementsAre("", "inner"));
}

// f.__code__.co_linetable and what co_lines() makes of it, by 3.11, of
//     def f(x):                 # line 1
//         try:
//             g(                # line 3
//                 x)            # line 204
//         except E:
//             return 2          # line 206
TEST(PythonLineTest, ReadsTheTableOfLocations) {
  const std::string table = absl::HexStringToBytes(
      "8000f0024c030511dd0809f05206000b0cf153064903090df4004903090df0004903090df0004903"
      "090df0004903090df8f55406000c0df000010511f000010511f000010511d80f1088718871f00301"
      "0511f8f8f8");
  const std::pair<int, std::uint32_t> kLines[] = {{0, 1},    {2, 2},    {4, 3},   {14, 3},
                                                  {16, 204}, {18, 3},   {36, 3},  {38, 0},
                                                  {40, 205}, {58, 206}, {62, 206}};
  for (const auto& [offset, line] : kLines) {
    EXPECT_EQ(PythonLine(table, 1, static_cast<std::uint64_t>(offset) / 2), line) << offset;
  }
  EXPECT_EQ(PythonLine(table, 1, 1000), 0u);
  for (std::size_t size = 0; size < table.size(); ++size) {
    PythonLine(table.substr(0, size), 1, 1000);
    PythonLine(table.substr(size), 1, 1000);
  }
}

// One process of the interpreter that is installed: its frames, or why they are not shown.
TEST(PythonFramesTest, AScriptThatWaitsInAFunction) {
  const std::string python = "/usr/bin/python3";
  if (::access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << python;
  const stacks_test::Probe probe({python, "-c",
                                  "import sys, threading, time\n"
                                  "class Loader:\n"
                                  "    def get(self, index):\n"
                                  "        print('ready', flush=True)\n"
                                  "        time.sleep(1000)\n"
                                  "def train(loader):\n"
                                  "    for step in [1]:\n"
                                  "        sorted([1], key=lambda each:\n"
                                  "            loader.get(each))\n"
                                  "threading.Thread(target=time.sleep, args=(1000,),\n"
                                  "                 daemon=True).start()\n"
                                  "\n"
                                  "train(Loader())\n"});
  const StackTarget target{3, probe.pid()};
  std::string text;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {  // "ready" comes a moment before it waits
    StackTextOptions options;
    options.most_in_line = 0;
    text = ToText(TakeStacks({&target, 1}, until).tree, options);
  } while (text.find("<string>:5") == std::string::npos &&
           text.find("are not shown") == std::string::npos &&
           std::chrono::steady_clock::now() < until);
  const bool is_311 = std::filesystem::canonical(python).filename() == "python3.11";
  if (!is_311) {
    EXPECT_THAT(text, testing::HasSubstr("are not shown, only the interpreter's own"));
    return;
  }
  EXPECT_THAT(text, testing::ContainsRegex(
                        "1 [^\n]*<module> <string>:13 → train <string>:8 → train.<locals>.<lambda> "
                        "<string>:9 → Loader.get <string>:5 → [^→]*nanosleep"));
  EXPECT_THAT(text,
              testing::ContainsRegex("other threads:\n1 [^\n]*Thread.run threading.py:[0-9]+"));
}

}  // namespace python_frames_test
}  // namespace ddprun::stacks
