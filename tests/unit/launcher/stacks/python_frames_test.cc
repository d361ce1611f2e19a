#include "launcher/stacks/python_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/stacks/python_offsets.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/stacks/stack_text.h"
#include "tests/unit/launcher/stacks/probe.h"

namespace ddprun::stacks {
namespace python_frames_test {

std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
  }
  return bytes;
}
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
      {Python("inner"), false, 0},
      {{"_load", "<frozen importlib._bootstrap>", 7, "python"}, false, 0},
      {Python("outer"), true, 0},
      {Python("<module>"), true, 0}};
  EXPECT_THAT(Names(WithPython(native, python)),
              testing::ElementsAre("clock_nanosleep", "time_sleep", "inner", "outer", "torch::call",
                                   "<module>", "main"));
  EXPECT_EQ(WithPython(native, {}), native);
}

TEST(WithPythonTest, ALoopWithoutANameIsKnownByTheAddressInItsStackFrame) {
  UnwoundThread native;
  native.frames = {Native("nanosleep", "libc.so.6"), Native("", "python3.14"),
                   Native("inlined", "python3.14"),  Native("", "python3.14"),
                   Native("torch::call", "x.so"),    Native("", "python3.14"),
                   Native("main", "launcher")};
  native.stack_pointers = {0x1000, 0x1100, 0x1200, 0x1200, 0x1300, 0x1400, 0x1500};
  const auto named = [&native](std::uint64_t inner, std::uint64_t outer) {
    return Names(WithLoopsNamed(
        native, {{Python("f"), false, 0}, {Python("g"), true, inner}, {Python("h"), true, outer}}));
  };
  const std::string kLoop = "_PyEval_EvalFrameDefault";
  EXPECT_THAT(named(0x1200, 0x14ff), testing::ElementsAre("nanosleep", "", "inlined", kLoop,
                                                          "torch::call", kLoop, "main"));
  // Addresses outside of all frames.
  EXPECT_EQ(named(0xfff, 0x1500), Names(native.frames));
  native.stack_pointers[3] = 0;
  EXPECT_EQ(named(0, 0), Names(native.frames));
  native.stack_pointers.clear();
  EXPECT_EQ(named(0x1200, 0x14ff), Names(native.frames));
}

TEST(WithPythonTest, WhereTheInterpreterIsNotRecognizedNoPythonFrameIsLost) {
  EXPECT_THAT(Names(WithPython({Native("", "libc.so.6")}, {{Python("inner"), true, 0}})),
              testing::ElementsAre("", "inner"));
}

// f.__code__.co_linetable, and the result of co_lines(), in Python 3.11, for this function:
//     def f(x):                 # line 1
//         try:
//             g(                # line 3
//                 x)            # line 204
//         except E:
//             return 2          # line 206
TEST(PythonLineTest, ReadsTheTableOfLocations) {
  const std::string table = FromHex(
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

// ---- 3.13 and 3.14: the memory of an interpreter, made by hand ----

// Memory with its own addresses. A read of an address without a byte fails.
class Image {
 public:
  void Put(std::uint64_t address, const void* from, std::size_t size) {
    const char* const bytes = static_cast<const char*>(from);
    for (std::size_t i = 0; i < size; ++i) bytes_[address + i] = bytes[i];
  }
  void Put(std::uint64_t address, std::uint64_t word) { Put(address, &word, sizeof(word)); }

  ReadMemory reader() const {
    return [this](std::uint64_t address, void* to, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i) {
        const auto byte = bytes_.find(address + i);
        if (byte == bytes_.end()) return false;
        static_cast<char*>(to)[i] = byte->second;
      }
      return true;
    };
  }

 private:
  std::map<std::uint64_t, char> bytes_;
};

// Where a version has its words in _Py_DebugOffsets, as its header says.
struct Words {
  int minor;
  std::uint64_t version;
  std::size_t thread_next, thread_frame, thread_native_id;
  std::size_t frame_previous, frame_executable, frame_instruction, frame_owner;
  std::size_t code_file, code_qualified_name, code_lines, code_first_line, code_instructions;
  std::size_t bytes_size, bytes;
  std::size_t text_state, text_length, ascii_object_size;
  std::uint64_t reference_tag;  // in a frame's reference to its code
};

void PrintTo(const Words& words, std::ostream* out) { *out << "3." << words.minor; }

constexpr Words kWords313 = {13, 0x030D00F0, 21, 23, 25, 29, 30, 31, 33, 35,
                             37, 38,         39, 43, 65, 66, 68, 69, 70, 0};
constexpr Words kWords314 = {14, 0x030E00F0, 24, 26, 28, 32, 33, 34, 36, 40,
                             42, 43,         44, 48, 75, 76, 78, 79, 80, 1};

// An interpreter whose structures differ from those of every release. Only its _Py_DebugOffsets say
// where the fields are. The words that nobody needs are 1.
class Interpreter {
 public:
  static constexpr std::uint64_t kRuntime = 0x10000;

  explicit Interpreter(const Words& at) : at_(at) {
    std::vector<std::uint64_t> words(at.ascii_object_size + 1, 1);
    std::memcpy(words.data(), "xdebugpy", 8);
    words[1] = at.version;
    words[2] = 0;
    const std::pair<std::size_t, std::uint64_t> kOffsets[] = {
        {5, 800},
        {8, 24},
        {9, 40},
        {at.thread_next, 16},
        {at.thread_frame, 48},
        {at.thread_native_id, 56},
        {at.frame_previous, 8},
        {at.frame_executable, 24},
        {at.frame_instruction, 32},
        {at.frame_owner, 45},
        {at.code_file, 16},
        {at.code_qualified_name, 24},
        {at.code_lines, 32},
        {at.code_first_line, 40},
        {at.code_instructions, 64},
        {at.bytes_size, 8},
        {at.bytes, 24},
        {at.text_state, 16},
        {at.text_length, 8},
        {at.ascii_object_size, 32},
    };
    for (const auto& [word, offset] : kOffsets) words[word] = offset;
    image_.Put(kRuntime, words.data(), words.size() * sizeof(words[0]));
  }

  void SetWord(std::size_t index, std::uint64_t value) { image_.Put(kRuntime + 8 * index, value); }

  // `text` has one byte for each letter.
  std::uint64_t Text(const std::string& text, bool ascii = true) {
    const std::uint64_t at = New();
    image_.Put(at + 8, text.size());
    const std::uint32_t state = 1u << 2 | 1u << 5 | (ascii ? 1u << 6 : 0);
    image_.Put(at + 16, &state, sizeof(state));
    image_.Put(at + (ascii ? 32 : 48), text.data(), text.size());
    return at;
  }

  std::uint64_t Code(std::uint64_t name, std::uint32_t first_line) {
    const std::uint64_t at = New();
    const std::uint64_t lines = New();
    // Each instruction is one line after the one before it.
    const std::string table = "\xd8\x01\xd8\x01\xd8\x01";
    image_.Put(lines + 8, table.size());
    image_.Put(lines + 24, table.data(), table.size());
    image_.Put(at + 16, Text("train.py"));
    image_.Put(at + 24, name);
    image_.Put(at + 32, lines);
    image_.Put(at + 40, &first_line, sizeof(first_line));
    return at;
  }

  std::uint64_t Frame(std::uint64_t code, std::uint64_t instruction, std::uint64_t previous,
                      char owner = 0) {
    const std::uint64_t at = New();
    image_.Put(at + 8, previous);
    image_.Put(at + 24, code | at_.reference_tag);
    image_.Put(at + 32, code + 64 + 2 * instruction);
    image_.Put(at + 45, &owner, 1);
    return at;
  }

  void SetPrevious(std::uint64_t frame, std::uint64_t previous) { image_.Put(frame + 8, previous); }

  std::uint64_t Thread(std::uint64_t tid, std::uint64_t frame, std::uint64_t next = 0) {
    const std::uint64_t at = New();
    image_.Put(at + 16, next);
    image_.Put(at + 48, frame);
    image_.Put(at + 56, tid);
    return at;
  }

  std::map<pid_t, std::vector<PythonFrame>> Frames(std::uint64_t threads) {
    const std::uint64_t interpreter = New();
    image_.Put(kRuntime + 800, interpreter);
    image_.Put(interpreter + 24, 0);
    image_.Put(interpreter + 40, threads);
    const auto offsets = Offsets();
    EXPECT_TRUE(offsets.ok()) << offsets.status();
    if (!offsets.ok()) return {};
    return ReadPythonFrames(*offsets, kRuntime, image_.reader());
  }

  absl::StatusOr<PythonOffsets> Offsets(std::uint64_t runtime = kRuntime) const {
    return FindPythonOffsets(at_.minor, runtime, image_.reader());
  }

 private:
  std::uint64_t New() { return next_ += 0x1000; }

  Words at_;
  Image image_;
  std::uint64_t next_ = 0x100000;
};

constexpr char kInvalid[] = "its _Py_DebugOffsets are missing or invalid";

class PublishedOffsetsTest : public testing::TestWithParam<Words> {
 protected:
  std::string Refusal(const Interpreter& python) const {
    return std::string(python.Offsets().status().message());
  }
};

TEST_P(PublishedOffsetsTest, FramesAreWhereTheInterpreterSaysThatTheyAre) {
  Interpreter python(GetParam());
  const std::uint64_t none = python.Code(python.Text("None"), 0);
  const std::uint64_t outer = python.Code(python.Text("main"), 10);
  const std::uint64_t inner = python.Code(python.Text("Loader.l\xe4"
                                                      "dt",
                                                      false),
                                          20);
  // C calls the interpreter's loop, which runs main(). main() calls C, which calls the loop again.
  const std::uint64_t from_c = python.Frame(none, 0, 0, 3);
  const std::uint64_t first = python.Frame(outer, 1, from_c);
  const std::uint64_t again = python.Frame(none, 0, first, 3);
  const std::uint64_t second = python.Frame(inner, 0, again);
  const std::uint64_t third = python.Frame(inner, 2, second);
  const std::uint64_t other = python.Thread(78, python.Frame(outer, 0, from_c));
  const auto frames = python.Frames(python.Thread(77, third, other));
  ASSERT_EQ(frames.size(), 2u);
  const auto frame = [](const char* name, std::uint32_t line) {
    return StackFrame{name, "train.py", line, "python"};
  };
  EXPECT_THAT(frames.at(77),
              testing::ElementsAre(PythonFrame{frame("Loader.lädt", 23), false, 0},
                                   PythonFrame{frame("Loader.lädt", 21), true, again},
                                   PythonFrame{frame("main", 12), true, from_c}));
  EXPECT_THAT(frames.at(78), testing::ElementsAre(PythonFrame{frame("main", 11), true, from_c}));
}

TEST_P(PublishedOffsetsTest, AChainWithoutAnEndEnds) {
  Interpreter python(GetParam());
  const std::uint64_t code = python.Code(python.Text("f"), 1);
  const std::uint64_t frame = python.Frame(code, 0, 0);
  python.SetPrevious(frame, frame);
  const std::uint64_t thread = python.Thread(77, frame);
  EXPECT_LE(python.Frames(thread)[77].size(), 256u);
}

TEST_P(PublishedOffsetsTest, OffsetsOfAnotherVersionOrThatCannotBeAreRefused) {
  const Words at = GetParam();
  Interpreter python(at);
  EXPECT_EQ(Refusal(python), "");
  EXPECT_EQ(python.Offsets(0x5000).status().message(), kInvalid);
  python.SetWord(1, at.version + 0x10000);
  EXPECT_EQ(Refusal(python), kInvalid);
  python.SetWord(1, at.version - 0x10000);
  EXPECT_EQ(Refusal(python), kInvalid);
  python.SetWord(1, at.version + 0x200);
  EXPECT_EQ(Refusal(python), "");
  for (const std::size_t word : {std::size_t{5}, at.frame_instruction, at.ascii_object_size}) {
    python = Interpreter(at);
    python.SetWord(word, std::uint64_t{1} << 40);
    EXPECT_EQ(Refusal(python), kInvalid) << word;
  }
  python = Interpreter(at);
  python.SetWord(0, 7);
  EXPECT_EQ(Refusal(python), kInvalid);
}

TEST_P(PublishedOffsetsTest, TheFreeThreadedBuildIsNamed) {
  Interpreter python(GetParam());
  python.SetWord(2, 1);
  EXPECT_EQ(Refusal(python), "ddprun does not know those of the free-threaded build");
}

INSTANTIATE_TEST_SUITE_P(Versions, PublishedOffsetsTest, testing::Values(kWords313, kWords314),
                         [](const auto& version) {
                           return "Python3" + std::to_string(version.param.minor);
                         });

// 3.14 has one more kind of frame without code than 3.13.
TEST(Python314Test, EveryFrameThatStandsForCIsLeftOut) {
  Interpreter python(kWords314);
  const std::uint64_t none = python.Code(python.Text("None"), 0);
  const std::uint64_t of_c = python.Frame(none, 0, 0, 4);
  const std::uint64_t frame = python.Frame(python.Code(python.Text("main"), 10), 0, of_c);
  EXPECT_THAT(python.Frames(python.Thread(77, frame))[77],
              testing::ElementsAre(PythonFrame{{"main", "train.py", 11, "python"}, true, of_c}));
}

TEST(PythonVersionTest, VersionsWithoutAKnownLayoutAreRefused) {
  for (const int minor : {11, 13, 14}) EXPECT_TRUE(CheckPythonVersion(minor).ok()) << minor;
  for (const int minor : {10, 12, 15}) {
    EXPECT_THAT(std::string(CheckPythonVersion(minor).message()),
                testing::HasSubstr("3.11, 3.13 and 3.14"));
    EXPECT_FALSE(FindPythonOffsets(minor, 0, Image().reader()).ok()) << minor;
  }
}

// ---- the interpreters that are installed ----

// The frames of a script, as soon as it waits. Sets `minor`: the interpreter is Python 3.`minor`.
std::string TextOfScript(const std::string& python, int* minor) {
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
  const std::string program = std::filesystem::canonical(python).filename();
  *minor = std::atoi(program.substr(std::min(program.size(), sizeof("python3.") - 1)).c_str());
  const StackTarget target{3, probe.pid()};
  std::string text;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {  // the script prints "ready" a moment before it waits
    StackTextOptions options;
    options.most_in_line = 0;
    text = ToText(TakeStacks({&target, 1}, until).tree, options);
  } while (text.find("<string>:5") == std::string::npos &&
           text.find("are not shown") == std::string::npos &&
           std::chrono::steady_clock::now() < until);
  return text;
}

class PythonFramesTest : public testing::TestWithParam<const char*> {};

TEST_P(PythonFramesTest, AScriptThatWaitsInAFunction) {
  const char* const named = std::getenv("DDPRUN_TEST_PYTHON");
  const std::string python = *GetParam() != '\0' ? GetParam() : named != nullptr ? named : "";
  if (::access(python.c_str(), X_OK) != 0) GTEST_SKIP() << "no interpreter \"" << python << '"';
  int minor = 0;
  const std::string text = TextOfScript(python, &minor);
  if (minor != 11 && minor != 13 && minor != 14) {
    EXPECT_THAT(text, testing::HasSubstr("are not shown, only native ones"));
    return;
  }
  EXPECT_THAT(text, testing::ContainsRegex(
                        "1 [^\n]*<module> <string>:13 → train <string>:8 → train.<locals>.<lambda> "
                        "<string>:9 → Loader.get <string>:5 → .*nanosleep"));
  // Native frames outside of the interpreter's loops stay outside, and the first ones are removed.
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("__libc_start_main")));
  EXPECT_THAT(text,
              testing::ContainsRegex("other threads:\n1 [^\n]*Thread.run threading.py:[0-9]+"));
}

// "" stands for the interpreter that DDPRUN_TEST_PYTHON names.
INSTANTIATE_TEST_SUITE_P(Installed, PythonFramesTest,
                         testing::Values("/usr/bin/python3", "/usr/bin/python3.13",
                                         "/usr/bin/python3.14", ""));

}  // namespace python_frames_test
}  // namespace ddprun::stacks
