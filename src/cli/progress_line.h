// One line on standard error that says how far a long piece of work is, written over and over; on
// terminals only, and gone when the object goes.
#pragma once

#include <functional>
#include <string_view>

namespace cairn::cli {

class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ProgressLine(ProgressLine&&) = delete;
  ProgressLine& operator=(ProgressLine&&) = delete;
  ~ProgressLine();

  // What to call with a share in [0, 1] and what is being done; empty when nobody would see it. The
  // line must outlive it.
  std::function<void(double, std::string_view)> reporter();

 private:
  void show(double share, std::string_view what);

  const bool is_seen_;
  bool is_shown_ = false;
};

}  // namespace cairn::cli
