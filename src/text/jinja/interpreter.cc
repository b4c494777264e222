#include "text/jinja/interpreter.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"

namespace cairn::jinja {

// Names and their values. Loops and macros open one; `if` does not.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;

  const Value* find(Symbol symbol, Budget& budget) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      budget.spend(scope->variables.size() / 16);
      for (const auto& [known, value] : scope->variables) {
        if (known == symbol) return &value;
      }
    }
    return nullptr;
  }

  void set(Symbol symbol, Value value, Budget& budget) {
    budget.spend(variables.size() / 16);
    for (auto& [known, old] : variables) {
      if (known == symbol) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(symbol, std::move(value));
  }
};

namespace {

using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { kNormal, kBreak, kContinue };

class Interpreter : public Runtime {
 public:
  Interpreter(const Template& source, int64_t now_unix, const Limits& limits)
      : Runtime(limits), template_(source), now_unix_(now_unix) {}

  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  Interpreter(Interpreter&&) = delete;
  Interpreter& operator=(Interpreter&&) = delete;

  // Namespaces and macros can hold each other in circles. They are emptied one by one while all are
  // still alive, so nothing leaks and no destructor recurses far.
  ~Interpreter() override {
    for (const auto& scope : namespaces_) scope->fields.clear();
    for (const auto& macro : macros_) macro->scope.reset();
  }

  std::string run(const Variables& variables) {
    auto root = std::make_shared<Scope>();
    for (const auto& [name, value] : variables) {
      budget().spend(template_.symbols.size() / 16);
      for (Symbol symbol = 0; symbol < template_.symbols.size(); ++symbol) {
        if (*template_.symbols[symbol] == name) root->set(symbol, value, budget());
      }
    }
    std::string out;
    execute(template_.body, root, out);
    return out;
  }

 private:
  // --- statements ---

  Flow execute(const Block& block, const ScopePtr& scope, std::string& out) {
    const Budget::Nesting nesting(budget());
    for (const Stmt& stmt : block) {
      budget().spend();
      const Flow flow = execute_one(stmt, scope, out);
      if (flow != Flow::kNormal) return flow;
    }
    return Flow::kNormal;
  }

  // Adds the line to errors that have none yet: the innermost one is reported.
  Flow execute_one(const Stmt& stmt, const ScopePtr& scope, std::string& out) {
    try {
      return dispatch(stmt, scope, out);
    } catch (TemplateError& error) {
      if (error.line_number == 0) error.line_number = stmt.line;
      throw;
    }
  }

  Flow dispatch(const Stmt& stmt, const ScopePtr& scope, std::string& out) {
    switch (stmt.kind) {
      case StmtKind::kText:
        emit(out, *stmt.text);
        return Flow::kNormal;
      case StmtKind::kPrint:
        append_str(out, evaluate(*stmt.expr, scope), budget());
        return Flow::kNormal;
      case StmtKind::kIf:
        return execute_if(stmt, scope, out);
      case StmtKind::kFor:
        return execute_for(stmt, scope, out);
      case StmtKind::kSet:
        assign(stmt.target, evaluate(*stmt.expr, scope), *scope);
        return Flow::kNormal;
      case StmtKind::kSetBlock:
        assign(stmt.target, filter_body(stmt, scope), *scope);
        return Flow::kNormal;
      case StmtKind::kMacro:
        scope->set(stmt.symbol, make_macro(stmt.macro, scope), budget());
        return Flow::kNormal;
      case StmtKind::kCallBlock:
        execute_call_block(stmt, scope, out);
        return Flow::kNormal;
      case StmtKind::kFilterBlock:
        append_str(out, filter_body(stmt, scope), budget());
        return Flow::kNormal;
      case StmtKind::kWith:
        return execute_with(stmt, scope, out);
      case StmtKind::kBreak:
        return Flow::kBreak;
      case StmtKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNormal;
  }

  void emit(std::string& out, std::string_view text) {
    budget().spend(text.size() / 64);
    budget().check(out.size() + text.size());
    out += text;
  }

  Flow execute_if(const Stmt& stmt, const ScopePtr& scope, std::string& out) {
    for (const Branch& branch : stmt.branches) {
      if (!branch.condition || is_true(evaluate(*branch.condition, scope))) {
        return execute(branch.body, scope, out);
      }
    }
    return Flow::kNormal;
  }

  static ScopePtr open_scope(const ScopePtr& parent) {
    auto scope = std::make_shared<Scope>();
    scope->parent = parent;
    return scope;
  }

  std::vector<Value> loop_items(const Stmt& stmt, const ScopePtr& scope) {
    std::vector<Value> items = iterate(evaluate(*stmt.expr, scope), *this);
    if (!stmt.condition) return items;
    std::vector<Value> kept;
    for (Value& item : items) {
      const ScopePtr inner = open_scope(scope);
      assign(stmt.target, item, *inner);
      if (is_true(evaluate(*stmt.condition, inner))) kept.push_back(std::move(item));
    }
    return kept;
  }

  Flow execute_for(const Stmt& stmt, const ScopePtr& scope, std::string& out) {
    const auto items = std::make_shared<const std::vector<Value>>(loop_items(stmt, scope));
    // Leaving the else part leaves the loop around this one.
    if (items->empty()) return execute(stmt.otherwise, open_scope(scope), out);
    for (size_t i = 0; i < items->size(); ++i) {
      budget().spend();
      const ScopePtr inner = open_scope(scope);
      auto loop = std::make_shared<Loop>();
      loop->items = items;
      loop->idx = i;
      inner->set(stmt.loop, Value(std::move(loop)), budget());
      assign(stmt.target, (*items)[i], *inner);
      if (execute(stmt.body, inner, out) == Flow::kBreak) break;
    }
    return Flow::kNormal;
  }

  Flow execute_with(const Stmt& stmt, const ScopePtr& scope, std::string& out) {
    const ScopePtr inner = open_scope(scope);
    for (const auto& [target, expr] : stmt.bound) assign(target, evaluate(*expr, scope), *inner);
    return execute(stmt.body, inner, out);
  }

  void assign(const Target& target, Value value, Scope& scope) {
    switch (target.kind) {
      case Target::Kind::kName:
        return scope.set(target.symbol, std::move(value), budget());
      case Target::Kind::kField: {
        const Value* object = scope.find(target.symbol, budget());
        if (object == nullptr || !object->is(Kind::kNamespace)) {
          fail("cannot assign attribute on non-namespace object");
        }
        budget().spend(object->scope().fields.size() / 16);
        if (object->scope().set(target.field, std::move(value))) budget().allocate(sizeof(Value));
        return;
      }
      case Target::Kind::kTuple:
        break;
    }
    const std::vector<Value> parts = iterate(value, *this);
    if (parts.size() != target.parts.size()) {
      fail(fmt::format(
          "ValueError: {} values to unpack, expected {}", parts.size(), target.parts.size()));
    }
    for (size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i], scope);
  }

  // The rendered body of a set or filter block, sent through its filters.
  Value filter_body(const Stmt& stmt, const ScopePtr& scope) {
    std::string body;
    execute(stmt.body, open_scope(scope), body);
    captured_ = string(std::move(body));
    return evaluate(*stmt.expr, scope);
  }

  // --- macros and calls ---

  Value make_macro(const std::shared_ptr<const Macro>& macro, const ScopePtr& scope) {
    budget().allocate(sizeof(Callable));
    auto callable = std::make_shared<Callable>();
    callable->type = Callable::Type::kMacro;
    callable->macro = macro;
    callable->scope = scope;
    macros_.push_back(callable);
    return Value(std::shared_ptr<const Callable>(std::move(callable)));
  }

  void execute_call_block(const Stmt& stmt, const ScopePtr& scope, std::string& out) {
    const Value callee = evaluate(*stmt.expr->children[0], scope);
    Arguments arguments = evaluate_arguments(*stmt.expr, scope);
    arguments.named.emplace_back(make_text("caller"), make_macro(stmt.macro, scope));
    append_str(out, call(callee, arguments), budget());
  }

  Value call(const Value& callee, const Arguments& arguments) {
    if (callee.is_undefined()) fail(callee.undefined().message());
    if (!callee.is(Kind::kCallable)) {
      fail(fmt::format("TypeError: '{}' object is not callable", type_name(callee)));
    }
    const Callable& callable = callee.callable();
    switch (callable.type) {
      case Callable::Type::kMacro:
        return call_macro(callable, arguments);
      case Callable::Type::kMethod:
        return call_method(callable.self, *callable.name, arguments, *this);
      case Callable::Type::kFunction:
        break;
    }
    Value result = call_function(callable.function, arguments, now_unix_, *this);
    if (result.is(Kind::kNamespace)) {
      namespaces_.push_back(result.shared_scope());
    }
    return result;
  }

  Value call_macro(const Callable& callable, const Arguments& arguments) {
    const Macro& macro = *callable.macro;
    const ScopePtr inner = open_scope(callable.scope);
    const size_t n = macro.parameters.size();
    std::vector<bool> is_given(n, false);
    for (size_t i = 0; i < std::min(n, arguments.positional.size()); ++i) {
      inner->set(macro.parameters[i].symbol, arguments.positional[i], budget());
      is_given[i] = true;
    }
    bind_named(macro, arguments, *inner, is_given);
    if (arguments.positional.size() > n && !macro.uses_varargs) {
      fail(fmt::format("TypeError: macro '{}' takes not more than {} argument(s)", *macro.name, n));
    }
    std::vector<Value> rest;
    for (size_t i = n; i < arguments.positional.size(); ++i) {
      rest.push_back(arguments.positional[i]);
    }
    inner->set(macro.varargs, make_tuple(std::move(rest), budget()), budget());
    // Defaults may name parameters before them.
    for (size_t i = 0; i < n; ++i) {
      if (is_given[i]) continue;
      const MacroParameter& parameter = macro.parameters[i];
      inner->set(parameter.symbol,
                 parameter.default_value
                     ? evaluate(*parameter.default_value, inner)
                     : Value(Undefined{parameter.name, Undefined::Reason::kVariable, Kind::kNone}),
                 budget());
    }
    std::string out;
    execute(macro.body, inner, out);
    return string(std::move(out));
  }

  void bind_named(const Macro& macro,
                  const Arguments& arguments,
                  Scope& scope,
                  std::vector<bool>& is_given) {
    std::vector<std::pair<Value, Value>> others;
    for (const auto& [name, value] : arguments.named) {
      budget().spend(macro.parameters.size() / 16);
      size_t i = 0;
      while (i < macro.parameters.size() && *macro.parameters[i].name != *name) ++i;
      if (i == macro.parameters.size()) {
        if (*name == "caller") {
          scope.set(macro.caller, value, budget());
        } else {
          if (!macro.uses_kwargs) fail_binding(*macro.name, "has no parameter", *name);
          others.emplace_back(Value(name), value);
        }
        continue;
      }
      if (is_given[i]) fail_binding(*macro.name, "got twice the parameter", *name);
      scope.set(macro.parameters[i].symbol, value, budget());
      is_given[i] = true;
    }
    scope.set(macro.kwargs, make_dict(std::move(others), budget()), budget());
  }

  // --- expressions ---

  Value evaluate(const Expr& expr, const ScopePtr& scope) {
    const Budget::Nesting nesting(budget());
    budget().spend();
    switch (expr.kind) {
      case ExprKind::kConstant:
        return expr.constant;
      case ExprKind::kCaptured:
        return captured_;
      case ExprKind::kName:
        return evaluate_name(expr, *scope);
      case ExprKind::kList:
        return list(evaluate_children(expr, scope, 0));
      case ExprKind::kTuple:
        return make_tuple(evaluate_children(expr, scope, 0), budget());
      case ExprKind::kDict:
        return evaluate_dict(expr, scope);
      case ExprKind::kAttribute:
        return attribute(child(expr, 0, scope), expr.text, *this);
      case ExprKind::kElement:
        return evaluate_element(expr, scope);
      case ExprKind::kSlice:
        return evaluate_slice(expr, scope);
      case ExprKind::kCall:
        return evaluate_call(expr, scope);
      case ExprKind::kFilter:
        return evaluate_filter(expr, scope);
      case ExprKind::kTest:
        return evaluate_test(expr, scope);
      case ExprKind::kUnary:
        return unary(expr.op, child(expr, 0, scope));
      case ExprKind::kBinary:
        return evaluate_binary(expr, scope);
      case ExprKind::kConcat:
        return evaluate_concat(expr, scope);
      case ExprKind::kCompare:
        return evaluate_compare(expr, scope);
      case ExprKind::kAnd: {
        Value left = child(expr, 0, scope);
        return is_true(left) ? child(expr, 1, scope) : left;
      }
      case ExprKind::kOr: {
        Value left = child(expr, 0, scope);
        return is_true(left) ? left : child(expr, 1, scope);
      }
      case ExprKind::kNot:
        return Value(!is_true(child(expr, 0, scope)));
      case ExprKind::kCondition:
        if (is_true(child(expr, 1, scope))) return child(expr, 0, scope);
        return expr.children[2] ? child(expr, 2, scope) : Value();
    }
    return Value();
  }

  Value child(const Expr& expr, size_t i, const ScopePtr& scope) {
    return evaluate(*expr.children[i], scope);
  }

  std::vector<Value> evaluate_children(const Expr& expr, const ScopePtr& scope, size_t first) {
    std::vector<Value> values;
    values.reserve(expr.children.size() - first);
    for (size_t i = first; i < expr.children.size(); ++i) values.push_back(child(expr, i, scope));
    return values;
  }

  Arguments evaluate_arguments(const Expr& expr, const ScopePtr& scope) {
    Arguments arguments;
    arguments.positional = evaluate_children(expr, scope, 1);
    for (const auto& [name, value] : expr.named) {
      arguments.named.emplace_back(name, evaluate(*value, scope));
    }
    return arguments;
  }

  Value evaluate_name(const Expr& expr, const Scope& scope) {
    if (const Value* value = scope.find(expr.symbol, budget())) return *value;
    const Text& name = template_.symbols[expr.symbol];
    if (const auto function = find_function(*name)) {
      auto callable = std::make_shared<Callable>();
      callable->function = *function;
      return Value(std::shared_ptr<const Callable>(std::move(callable)));
    }
    return Value(Undefined{name, Undefined::Reason::kVariable, Kind::kNone});
  }

  Value evaluate_dict(const Expr& expr, const ScopePtr& scope) {
    std::vector<std::pair<Value, Value>> items;
    for (size_t i = 0; i < expr.children.size(); i += 2) {
      Value key = child(expr, i, scope);
      check_hashable(key);
      Value value = child(expr, i + 1, scope);
      const auto known = std::find_if(items.begin(), items.end(), [&](const auto& item) {
        return equal(item.first, key, budget());
      });
      if (known == items.end()) {
        items.emplace_back(std::move(key), std::move(value));
      } else {
        known->second = std::move(value);
      }
    }
    return make_dict(std::move(items), budget());
  }

  Value evaluate_element(const Expr& expr, const ScopePtr& scope) {
    const Value object = child(expr, 0, scope);
    return element(object, child(expr, 1, scope), *this);
  }

  Value evaluate_slice(const Expr& expr, const ScopePtr& scope) {
    const Value object = child(expr, 0, scope);
    Value bounds[3];
    const Value* given[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      if (!expr.children[i + 1]) continue;
      bounds[i] = child(expr, i + 1, scope);
      given[i] = &bounds[i];
    }
    return slice(object, given[0], given[1], given[2], *this);
  }

  Value evaluate_call(const Expr& expr, const ScopePtr& scope) {
    const Value callee = child(expr, 0, scope);
    return call(callee, evaluate_arguments(expr, scope));
  }

  Value evaluate_filter(const Expr& expr, const ScopePtr& scope) {
    const Value input = child(expr, 0, scope);
    if (expr.filter == nullptr) fail(fmt::format("No filter named '{}' found.", *expr.text));
    return expr.filter(*this, input, evaluate_arguments(expr, scope));
  }

  Value evaluate_test(const Expr& expr, const ScopePtr& scope) {
    const Value input = child(expr, 0, scope);
    if (expr.test == nullptr) fail(fmt::format("No test named '{}' found.", *expr.text));
    return Value(expr.test(*this, input, evaluate_arguments(expr, scope)));
  }

  Value evaluate_binary(const Expr& expr, const ScopePtr& scope) {
    const Value left = child(expr, 0, scope);
    return binary(expr.op, left, child(expr, 1, scope), *this);
  }

  Value evaluate_concat(const Expr& expr, const ScopePtr& scope) {
    std::string out;
    for (size_t i = 0; i < expr.children.size(); ++i) {
      append_str(out, child(expr, i, scope), budget());
    }
    return string(std::move(out));
  }

  Value evaluate_compare(const Expr& expr, const ScopePtr& scope) {
    Value left = child(expr, 0, scope);
    for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
      Value right = child(expr, i + 1, scope);
      if (!compare(expr.compare_ops[i], left, right, *this)) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  const Template& template_;
  int64_t now_unix_;
  Value captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<const Callable>> macros_;
};

}  // namespace

std::string render(const Template& source,
                   const std::function<Variables(Budget&)>& make_variables,
                   int64_t now_unix,
                   const Limits& limits) {
  Interpreter interpreter(source, now_unix, limits);
  const Variables variables = make_variables(interpreter.budget());
  interpreter.budget().admit_inputs();
  return interpreter.run(variables);
}

}  // namespace cairn::jinja
