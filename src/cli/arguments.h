// Command-line arguments: an option is declared once (name, kind, default, help) and read once.
//
// CLI11 does the parsing inside arguments.cc; commands see only this. Unknown options and bad
// values are usage errors: exit status 2, the message on standard error names the option, the value
// and what is accepted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

class Arguments {
 public:
  // `command`: as people type it after "cairn".
  Arguments(std::string command, std::string description);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  Arguments(Arguments&&) = delete;
  Arguments& operator=(Arguments&&) = delete;
  ~Arguments();

  // The variable holds the default and must outlive parse(). `name` like "--threads" or, for a
  // positional argument, "PATH". Returned handles are not needed: everything is set by parse().
  void text(const std::string& name, std::string* value, const std::string& help);
  void required_text(const std::string& name, std::string* value, const std::string& help);
  void optional_text(const std::string& name,
                     std::optional<std::string>* value,
                     const std::string& help);
  void texts(const std::string& name, std::vector<std::string>* values, const std::string& help);
  void flag(const std::string& name, bool* value, const std::string& help);
  void integer(const std::string& name,
               uint64_t* value,
               uint64_t min,
               uint64_t max,
               const std::string& help);
  void optional_integer(const std::string& name,
                        std::optional<uint64_t>* value,
                        uint64_t min,
                        uint64_t max,
                        const std::string& help);
  void integers(const std::string& name,
                std::vector<uint64_t>* values,
                uint64_t min,
                uint64_t max,
                const std::string& help);  // "1,2,4"
  void number(const std::string& name,
              std::optional<float>* value,
              float min,
              float max,
              const std::string& help);
  void size(const std::string& name, uint64_t* bytes, const std::string& help);  // "2GiB"
  void duration(const std::string& name,
                std::chrono::milliseconds* value,
                const std::string& help);  // "1s"
  void choice(const std::string& name,
              std::string* value,
              const std::vector<std::string>& accepted,
              const std::string& help);

  // Nullopt: run the command. Else the exit status (help was printed, or the usage error).
  std::optional<int> parse(int argc, const char* const* argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::cli
