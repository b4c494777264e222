#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/options.h"

namespace cairn::cli {
namespace {

// A CLI11 callback says "this value is wrong" by throwing; the throw ends inside parse().
[[noreturn]] void refuse(const std::string& name, const std::string& message) {
  throw CLI::ValidationError(name, message);
}

uint64_t to_integer(const std::string& name, const std::string& text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < min || value > max) {
    refuse(name,
           "is \"" + text + "\", wanted a whole number from " + std::to_string(min) + " to " +
               std::to_string(max));
  }
  return value;
}

float to_float(const std::string& name, const std::string& text, float min, float max) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool in_range = value >= min && value <= max;
  if (error != std::errc{} || end != text.data() + text.size() || !in_range) {
    refuse(name,
           "is \"" + text + "\", wanted a number from " + CLI::detail::to_string(min) + " to " +
               CLI::detail::to_string(max));
  }
  return value;
}

// What nothing was declared for. An unknown option's value is left over too: the option is named.
std::string unexpected_word(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.starts_with("-")) return "unknown option \"" + word + "\"";
  }
  return words.empty() ? "an argument too many" : "unexpected argument \"" + words.front() + "\"";
}

}  // namespace

struct Arguments::Impl {
  Impl(std::string command, std::string description)
      : app(std::move(description), "cairn " + command) {
    app.set_help_flag("-h,--help", "Print this help");
    app.option_defaults()->always_capture_default(false);
  }

  CLI::Option* value(const std::string& name,
                     std::function<void(const std::string&)> take,
                     const std::string& help) {
    return app.add_option_function<std::string>(name, std::move(take), help)
        ->take_last()
        ->type_name("");
  }

  int refuse_usage(const std::string& message) const {
    const std::string name = app.get_name();
    std::fprintf(stderr, "%s: %s\nTry: %s --help\n", name.c_str(), message.c_str(), name.c_str());
    return kExitUsage;
  }

  CLI::App app;
};

Arguments::Arguments(std::string command, std::string description)
    : impl_(std::make_unique<Impl>(std::move(command), std::move(description))) {}

Arguments::~Arguments() = default;

void Arguments::text(const std::string& name, std::string* value, const std::string& help) {
  impl_
      ->value(
          name, [value](const std::string& text) { *value = text; }, help)
      ->default_str(*value);
}

void Arguments::required_text(const std::string& name,
                              std::string* value,
                              const std::string& help) {
  impl_
      ->value(
          name, [value](const std::string& text) { *value = text; }, help)
      ->required();
}

void Arguments::optional_text(const std::string& name,
                              std::optional<std::string>* value,
                              const std::string& help) {
  impl_->value(
      name, [value](const std::string& text) { *value = text; }, help);
}

void Arguments::texts(const std::string& name,
                      std::vector<std::string>* values,
                      const std::string& help) {
  impl_->app.add_option(name, *values, help)->type_name("")->allow_extra_args(false);
}

void Arguments::flag(const std::string& name, bool* value, const std::string& help) {
  impl_->app.add_flag(name, *value, help);
}

void Arguments::integer(
    const std::string& name, uint64_t* value, uint64_t min, uint64_t max, const std::string& help) {
  impl_
      ->value(
          name,
          [name, value, min, max](const std::string& text) {
            *value = to_integer(name, text, min, max);
          },
          help)
      ->default_str(std::to_string(*value));
}

void Arguments::optional_integer(const std::string& name,
                                 std::optional<uint64_t>* value,
                                 uint64_t min,
                                 uint64_t max,
                                 const std::string& help) {
  impl_->value(
      name,
      [name, value, min, max](const std::string& text) {
        *value = to_integer(name, text, min, max);
      },
      help);
}

void Arguments::integers(const std::string& name,
                         std::vector<uint64_t>* values,
                         uint64_t min,
                         uint64_t max,
                         const std::string& help) {
  const auto take = [name, values, min, max](const std::string& text) {
    values->clear();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      values->push_back(to_integer(name, text.substr(begin, comma - begin), min, max));
      begin = comma + 1;
    }
  };
  std::string shown;
  for (const uint64_t v : *values) shown += (shown.empty() ? "" : ",") + std::to_string(v);
  impl_->value(name, take, help)->default_str(shown);
}

void Arguments::number(const std::string& name,
                       std::optional<float>* value,
                       float min,
                       float max,
                       const std::string& help) {
  impl_->value(
      name,
      [name, value, min, max](const std::string& text) { *value = to_float(name, text, min, max); },
      help);
}

void Arguments::size(const std::string& name, uint64_t* bytes, const std::string& help) {
  const auto take = [name, bytes](const std::string& text) {
    const auto parsed = parse_size(text);
    if (!parsed.is_ok()) refuse(name, parsed.status().message());
    *bytes = *parsed;
  };
  impl_->value(name, take, help)->default_str(format_size(*bytes));
}

void Arguments::duration(const std::string& name,
                         std::chrono::milliseconds* value,
                         const std::string& help) {
  const auto take = [name, value](const std::string& text) {
    const auto parsed = parse_duration(text);
    if (!parsed.is_ok()) refuse(name, parsed.status().message());
    *value = *parsed;
  };
  impl_->value(name, take, help)->default_str(std::to_string(value->count()) + "ms");
}

void Arguments::choice(const std::string& name,
                       std::string* value,
                       const std::vector<std::string>& accepted,
                       const std::string& help) {
  std::string listed;
  for (const std::string& word : accepted) listed += (listed.empty() ? "" : "|") + word;
  const auto take = [name, value, accepted, listed](const std::string& text) {
    for (const std::string& word : accepted) {
      if (word == text) {
        *value = text;
        return;
      }
    }
    refuse(name, "is \"" + text + "\"; this version has " + listed);
  };
  impl_->value(name, take, help + " (" + listed + ")")->default_str(*value);
}

std::optional<int> Arguments::parse(int argc, const char* const* argv) {
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    impl_->app.exit(help);
    return kExitOk;
  } catch (const CLI::ExtrasError&) {
    return impl_->refuse_usage(unexpected_word(impl_->app.remaining()));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    return impl_->refuse_usage(text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::ParseError& error) {
    return impl_->refuse_usage(error.what());
  }
  return std::nullopt;
}

}  // namespace cairn::cli
