#include "store/disk_store.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mailbox.h"

namespace cairn {
namespace {

struct WriteCommand {
  uint64_t ticket = 0;
  ObjectSource source;
};

struct SyncCommand {
  uint64_t ticket = 0;
};

struct ForgetCommand {
  uint64_t ticket = 0;
  std::vector<ObjectEntry> entries;
  std::optional<RootKey> whole_root;
};

struct QuarantineCommand {
  ObjectEntry entry;
  std::string reason;
};

struct RemoveCommand {
  ObjectEntry entry;
};

struct UseCommand {
  std::vector<PageKey> object_keys;
  int64_t unix_seconds = 0;
};

struct RemoveRootCommand {
  RootKey root;
};

struct CompactCommand {
  std::vector<ObjectEntry> live;
};

using WriterCommand = std::variant<RootSpec,
                                   WriteCommand,
                                   SyncCommand,
                                   ForgetCommand,
                                   QuarantineCommand,
                                   RemoveCommand,
                                   RemoveRootCommand,
                                   UseCommand,
                                   CompactCommand>;

struct ReadCommand {
  uint64_t ticket = 0;
  ObjectEntry entry;
  std::vector<PageLayout> layouts;
  std::vector<PageTarget> targets;
  std::chrono::steady_clock::time_point begun;
  ReadJob job;  // points at the members above
};

uint64_t payload_bytes(const ReadCommand& command) {
  uint64_t n_bytes = 0;
  for (const PageTarget& target : command.targets) {
    const size_t n_tokens = command.entry.pages[target.page_index].tokens.size();
    for (const PageLayout& layout : command.layouts) {
      n_bytes += packed_layer_bytes(layout, static_cast<uint32_t>(n_tokens)) * layout.n_layers;
    }
  }
  return n_bytes;
}

}  // namespace

struct DiskStore::Impl {
  Impl(std::unique_ptr<StoreFiles> store_files, std::function<void(StoreReply)> on_reply)
      : files(std::move(store_files)), reply(std::move(on_reply)), commands(0), reads(0) {}

  std::unique_ptr<StoreFiles> files;
  std::function<void(StoreReply)> reply;
  // The engine bounds what is queued (leased bytes, admitted restores), so a command is never
  // refused.
  Mailbox<WriterCommand> commands;
  Mailbox<std::unique_ptr<ReadCommand>> reads;
  StatusCode last_reported = StatusCode::kOk;  // writer thread
  std::jthread writer;
  std::jthread reader;

  void run_writer() {
    while (std::optional<WriterCommand> command = commands.pop()) {
      std::visit([this](auto& c) { handle(c); }, *command);
    }
  }

  // For commands without a reply: nothing is lost but a future hit. A fault that lasts is told
  // once.
  void report(const Status& status) {
    if (status.code() == StatusCode::kNotFound) return;
    if (!status.is_ok() && status.code() != last_reported)
      log_warning("store: {}", status.to_string());
    last_reported = status.code();
  }

  void handle(const RootSpec& spec) { report(files->describe_root(spec)); }

  void handle(const WriteCommand& command) {
    const Result<uint64_t> written = files->write_object(command.source);
    reply(WriteReply{command.ticket, written.status(), written.is_ok() ? *written : 0});
  }

  void handle(const SyncCommand& command) { reply(SyncReply{command.ticket, files->sync()}); }

  void handle(const ForgetCommand& command) {
    RemovedFiles removed;
    Status status = files->forget_objects(
        command.entries, command.whole_root ? &*command.whole_root : nullptr, &removed);
    reply(ForgetReply{command.ticket, std::move(status), removed.n_objects, removed.n_bytes});
  }

  void handle(const QuarantineCommand& command) {
    report(files->quarantine(command.entry, command.reason));
  }

  void handle(const RemoveCommand& command) { report(files->remove_object(command.entry)); }

  void handle(const RemoveRootCommand& command) { report(files->remove_empty_root(command.root)); }

  void handle(const UseCommand& command) {
    report(files->record_use(command.object_keys, command.unix_seconds));
  }

  void handle(const CompactCommand& command) { report(files->compact_if_needed(command.live)); }

  // One round serves everything that is queued and whatever joins while reads are in flight.
  void run_reader() {
    while (std::optional<std::unique_ptr<ReadCommand>> first = reads.pop()) {
      std::vector<std::unique_ptr<ReadCommand>> active;
      const auto next = [&]() -> const ReadJob* {
        std::optional<std::unique_ptr<ReadCommand>> command = std::exchange(first, std::nullopt);
        if (!command) command = reads.try_pop();
        if (!command) return nullptr;
        active.push_back(std::move(*command));
        return &active.back()->job;
      };
      const auto done = [&](const ReadJob& job, const Status& status) {
        const auto it = std::find_if(
            active.begin(), active.end(), [&](const auto& c) { return &c->job == &job; });
        finish_read(**it, status);
        active.erase(it);
      };
      files->read_objects(next, done);
    }
  }

  void finish_read(const ReadCommand& command, const Status& status) {
    const auto took = std::chrono::steady_clock::now() - command.begun;
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    const uint64_t n_bytes = status.is_ok() ? payload_bytes(command) : 0;
    reply(ReadReply{command.ticket, status, n_bytes, static_cast<uint64_t>(micros)});
  }
};

DiskStore::DiskStore(std::unique_ptr<StoreFiles> files, std::function<void(StoreReply)> reply)
    : impl_(std::make_unique<Impl>(std::move(files), std::move(reply))) {
  Impl* impl = impl_.get();
  impl->writer = std::jthread([impl] { impl->run_writer(); });
  impl->reader = std::jthread([impl] { impl->run_reader(); });
}

DiskStore::~DiskStore() {
  impl_->commands.close();
  impl_->reads.close();
  impl_->writer.join();
  impl_->reader.join();
}

void DiskStore::describe_root(RootSpec spec) {
  impl_->commands.push_reply(std::move(spec));
}

void DiskStore::remove_root(RootKey root) {
  impl_->commands.push_reply(RemoveRootCommand{root});
}

void DiskStore::write(uint64_t ticket, ObjectSource source) {
  impl_->commands.push_reply(WriteCommand{ticket, std::move(source)});
}

void DiskStore::read(uint64_t ticket,
                     ObjectEntry entry,
                     std::vector<PageLayout> layouts,
                     std::vector<PageTarget> targets) {
  auto command = std::make_unique<ReadCommand>();
  command->ticket = ticket;
  command->entry = std::move(entry);
  command->layouts = std::move(layouts);
  command->targets = std::move(targets);
  command->begun = std::chrono::steady_clock::now();
  command->job = {&command->entry, command->layouts, command->targets};
  impl_->reads.push_reply(std::move(command));
}

void DiskStore::sync(uint64_t ticket) {
  impl_->commands.push_reply(SyncCommand{ticket});
}

void DiskStore::forget(uint64_t ticket,
                       std::vector<ObjectEntry> entries,
                       std::optional<RootKey> whole_root) {
  impl_->commands.push_reply(ForgetCommand{ticket, std::move(entries), whole_root});
}

void DiskStore::quarantine(ObjectEntry entry, std::string reason) {
  impl_->commands.push_reply(QuarantineCommand{std::move(entry), std::move(reason)});
}

void DiskStore::remove(ObjectEntry entry) {
  impl_->commands.push_reply(RemoveCommand{std::move(entry)});
}

void DiskStore::record_use(std::vector<PageKey> object_keys, int64_t unix_seconds) {
  impl_->commands.push_reply(UseCommand{std::move(object_keys), unix_seconds});
}

void DiskStore::compact(std::vector<ObjectEntry> live) {
  impl_->commands.push_reply(CompactCommand{std::move(live)});
}

}  // namespace cairn
