#include "text/jinja/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <unordered_map>

#include "text/jinja/builtins.h"
#include "text/jinja/lexer.h"

namespace cairn::jinja {

namespace {

// Parentheses, statements and prefixes inside one another; real templates reach about ten.
constexpr uint32_t kNestingMax = 100;
// Height of an expression; "a + b + c" counts one for each +.
constexpr uint32_t kHeightMax = 300;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Template run() {
    Template result;
    result.body = parse_block({});
    result.symbols = std::move(symbols_);
    return result;
  }

 private:
  // Counts nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kNestingMax) parser_.fail_here("the template nests too deeply");
    }

    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Nesting(Nesting&&) = delete;
    Nesting& operator=(Nesting&&) = delete;

    ~Nesting() { --parser_.nesting_; }

   private:
    Parser& parser_;
  };

  // --- tokens ---

  const Token& current() const { return tokens_[pos_]; }

  const Token& ahead() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }

  Token next() {
    Token token = current();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }

  [[noreturn]] void fail_here(std::string message) const {
    throw TemplateError(std::move(message), false, current().line);
  }

  static std::string describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kText:
        return "text";
      case TokenKind::kBlockBegin:
        return "{%";
      case TokenKind::kBlockEnd:
        return "%}";
      case TokenKind::kPrintBegin:
        return "{{";
      case TokenKind::kPrintEnd:
        return "}}";
      default:
        return "'" + token.text + "'";
    }
  }

  bool is_operator(std::string_view text) const {
    return current().kind == TokenKind::kOperator && current().text == text;
  }

  bool is_name(std::string_view text) const {
    return current().kind == TokenKind::kName && current().text == text;
  }

  bool skip_operator(std::string_view text) {
    if (!is_operator(text)) return false;
    next();
    return true;
  }

  bool skip_name(std::string_view text) {
    if (!is_name(text)) return false;
    next();
    return true;
  }

  void expect_operator(std::string_view text) {
    if (!skip_operator(text))
      fail_here(fmt::format("expected '{}', found {}", text, describe(current())));
  }

  void expect(TokenKind kind) {
    if (current().kind != kind) {
      fail_here(fmt::format("expected {}, found {}", describe({kind, 0, ""}), describe(current())));
    }
    next();
  }

  std::string expect_name() {
    if (current().kind != TokenKind::kName) {
      fail_here("expected a name, found " + describe(current()));
    }
    return next().text;
  }

  Symbol intern(const std::string& name) {
    const auto [entry, is_new] =
        symbol_ids_.try_emplace(name, static_cast<Symbol>(symbols_.size()));
    if (is_new) symbols_.push_back(make_text(name));
    return entry->second;
  }

  // --- statements ---

  // Up to one of the tags in `ends`, whose name is left as the current token; without ends, up to
  // the end of the template.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Block block;
    while (current().kind != TokenKind::kEnd) {
      if (current().kind == TokenKind::kText) {
        Stmt stmt = make(StmtKind::kText);
        stmt.text = make_text(next().text);
        block.push_back(std::move(stmt));
      } else if (current().kind == TokenKind::kPrintBegin) {
        next();
        Stmt stmt = make(StmtKind::kPrint);
        stmt.expr = parse_tuple(true);
        expect(TokenKind::kPrintEnd);
        block.push_back(std::move(stmt));
      } else {
        expect(TokenKind::kBlockBegin);
        for (const std::string_view end : ends) {
          if (is_name(end)) return block;
        }
        block.push_back(parse_statement());
      }
    }
    if (ends.size() > 0) fail_here(fmt::format("{{% {} %}} is missing", *(ends.end() - 1)));
    return block;
  }

  Stmt make(StmtKind kind) const {
    Stmt stmt;
    stmt.kind = kind;
    stmt.line = current().line;
    return stmt;
  }

  void end_block(std::string_view name) {
    if (!skip_name(name))
      fail_here(fmt::format("expected {}, found {}", name, describe(current())));
    expect(TokenKind::kBlockEnd);
  }

  Stmt parse_statement() {
    const Nesting nesting(*this);
    if (current().kind != TokenKind::kName)
      fail_here("expected a tag, found " + describe(current()));
    const std::string tag = current().text;
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "generation") return parse_generation();
    if (tag == "break" || tag == "continue") return parse_jump(tag == "break");
    fail_here(fmt::format("tag '{}' is not supported here", tag));
  }

  Stmt parse_if() {
    Stmt stmt = make(StmtKind::kIf);
    next();
    while (true) {
      Branch branch;
      branch.condition = parse_tuple(false);
      expect(TokenKind::kBlockEnd);
      branch.body = parse_block({"elif", "else", "endif"});
      stmt.branches.push_back(std::move(branch));
      if (skip_name("elif")) continue;
      if (skip_name("else")) {
        expect(TokenKind::kBlockEnd);
        Branch otherwise;
        otherwise.body = parse_block({"endif"});
        stmt.branches.push_back(std::move(otherwise));
      }
      end_block("endif");
      return stmt;
    }
  }

  Stmt parse_for() {
    Stmt stmt = make(StmtKind::kFor);
    next();
    stmt.target = parse_target(false);
    if (!skip_name("in")) fail_here("expected 'in', found " + describe(current()));
    stmt.expr = parse_tuple(false);
    stmt.loop = intern("loop");
    if (skip_name("if")) stmt.condition = parse_expression();
    if (is_name("recursive")) fail_here("recursive loops are not supported");
    expect(TokenKind::kBlockEnd);
    ++n_loops_;
    stmt.body = parse_block({"else", "endfor"});
    --n_loops_;
    if (skip_name("else")) {
      expect(TokenKind::kBlockEnd);
      stmt.otherwise = parse_block({"endfor"});
    }
    end_block("endfor");
    return stmt;
  }

  Stmt parse_set() {
    Stmt stmt = make(StmtKind::kSet);
    next();
    stmt.target = parse_target(true);
    if (skip_operator("=")) {
      stmt.expr = parse_tuple(true);
      expect(TokenKind::kBlockEnd);
      return stmt;
    }
    stmt.kind = StmtKind::kSetBlock;
    stmt.expr = make_expr(ExprKind::kCaptured);
    while (is_operator("|")) stmt.expr = parse_filter(std::move(stmt.expr));
    expect(TokenKind::kBlockEnd);
    stmt.body = parse_body("endset");
    return stmt;
  }

  // A body that loops outside cannot be left from: it is evaluated on its own.
  Block parse_body(std::string_view end) {
    const uint32_t n_loops = std::exchange(n_loops_, 0);
    Block body = parse_block({end});
    n_loops_ = n_loops;
    end_block(end);
    return body;
  }

  Stmt parse_macro() {
    Stmt stmt = make(StmtKind::kMacro);
    next();
    const std::string name = expect_name();
    stmt.symbol = intern(name);
    expect_operator("(");
    stmt.macro = parse_macro_rest(name, "endmacro");
    return stmt;
  }

  // Parameters after the opening parenthesis, and the body.
  std::shared_ptr<const Macro> parse_macro_rest(const std::string& name, std::string_view end) {
    auto macro = std::make_shared<Macro>();
    macro->name = make_text(name);
    parse_parameters(*macro);
    expect(TokenKind::kBlockEnd);
    parse_macro_body(*macro, end);
    return macro;
  }

  void parse_macro_body(Macro& macro, std::string_view end) {
    const bool saw_varargs = std::exchange(saw_varargs_, false);
    const bool saw_kwargs = std::exchange(saw_kwargs_, false);
    macro.body = parse_body(end);
    macro.uses_varargs = std::exchange(saw_varargs_, saw_varargs);
    macro.uses_kwargs = std::exchange(saw_kwargs_, saw_kwargs);
    macro.caller = intern("caller");
    macro.varargs = intern("varargs");
    macro.kwargs = intern("kwargs");
  }

  void parse_parameters(Macro& macro) {
    while (!skip_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      if (skip_operator(")")) return;
      MacroParameter parameter;
      const std::string name = expect_name();
      parameter.symbol = intern(name);
      parameter.name = make_text(name);
      if (skip_operator("=")) {
        parameter.default_value = parse_expression();
      } else if (!macro.parameters.empty() && macro.parameters.back().default_value) {
        fail_here("a parameter without a default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
  }

  Stmt parse_call_block() {
    Stmt stmt = make(StmtKind::kCallBlock);
    next();
    auto macro = std::make_shared<Macro>();
    macro->name = make_text("caller");
    if (skip_operator("(")) parse_parameters(*macro);
    stmt.expr = parse_expression();
    if (stmt.expr->kind != ExprKind::kCall) fail_here("a call block needs a call");
    expect(TokenKind::kBlockEnd);
    parse_macro_body(*macro, "endcall");
    stmt.macro = std::move(macro);
    return stmt;
  }

  Stmt parse_filter_block() {
    Stmt stmt = make(StmtKind::kFilterBlock);
    next();
    stmt.expr = parse_filter_call(make_expr(ExprKind::kCaptured));
    while (is_operator("|")) stmt.expr = parse_filter(std::move(stmt.expr));
    expect(TokenKind::kBlockEnd);
    stmt.body = parse_body("endfilter");
    return stmt;
  }

  Stmt parse_with() {
    Stmt stmt = make(StmtKind::kWith);
    next();
    while (current().kind != TokenKind::kBlockEnd) {
      if (!stmt.bound.empty()) expect_operator(",");
      Target target = parse_target(false);
      expect_operator("=");
      stmt.bound.emplace_back(std::move(target), parse_expression());
    }
    expect(TokenKind::kBlockEnd);
    stmt.body = parse_block({"endwith"});
    end_block("endwith");
    return stmt;
  }

  Stmt parse_generation() {
    Stmt stmt = make(StmtKind::kWith);
    next();
    expect(TokenKind::kBlockEnd);
    stmt.body = parse_block({"endgeneration"});
    end_block("endgeneration");
    return stmt;
  }

  Stmt parse_jump(bool is_break) {
    Stmt stmt = make(is_break ? StmtKind::kBreak : StmtKind::kContinue);
    if (n_loops_ == 0) fail_here(fmt::format("'{}' outside of a loop", current().text));
    next();
    expect(TokenKind::kBlockEnd);
    return stmt;
  }

  Target parse_one_target(bool with_field) {
    const Nesting nesting(*this);
    if (skip_operator("(")) {
      Target target = parse_target(false);
      expect_operator(")");
      return target;
    }
    Target target;
    const std::string name = expect_name();
    if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
        name == "None") {
      fail_here(fmt::format("cannot assign to '{}'", name));
    }
    target.symbol = intern(name);
    if (with_field && skip_operator(".")) {
      target.kind = Target::Kind::kField;
      target.field = make_text(expect_name());
    }
    return target;
  }

  Target parse_target(bool with_field) {
    Target first = parse_one_target(with_field);
    if (!is_operator(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.parts.push_back(std::move(first));
    while (skip_operator(",")) {
      if (current().kind != TokenKind::kName && !is_operator("(")) break;
      if (is_name("in")) break;
      tuple.parts.push_back(parse_one_target(false));
    }
    return tuple;
  }

  // --- expressions ---

  ExprPtr make_expr(ExprKind kind) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = current().line;
    return expr;
  }

  template <typename... Children>
  ExprPtr make_expr(ExprKind kind, Children... children) const {
    ExprPtr expr = make_expr(kind);
    (add_child(*expr, std::move(children)), ...);
    return expr;
  }

  void check_height(const Expr& expr) const {
    if (expr.depth > kHeightMax) fail_here("an expression is too long");
  }

  void add_child(Expr& parent, ExprPtr child) const {
    if (child) parent.depth = std::max(parent.depth, child->depth + 1);
    check_height(parent);
    parent.children.push_back(std::move(child));
  }

  ExprPtr make_constant(Value value) const {
    ExprPtr expr = make_expr(ExprKind::kConstant);
    expr->constant = std::move(value);
    return expr;
  }

  ExprPtr parse_expression() {
    const Nesting nesting(*this);
    ExprPtr expr = parse_or();
    while (skip_name("if")) {
      ExprPtr condition = parse_or();
      ExprPtr otherwise;
      if (skip_name("else")) otherwise = parse_expression();
      expr = make_expr(
          ExprKind::kCondition, std::move(expr), std::move(condition), std::move(otherwise));
    }
    return expr;
  }

  bool ends_tuple() const {
    return current().kind == TokenKind::kBlockEnd || current().kind == TokenKind::kPrintEnd ||
           is_operator(")") || is_operator("=");
  }

  // One expression, or several with commas between. Without conditions, "if" ends it (for loops).
  ExprPtr parse_tuple(bool with_condition) {
    const auto parse_item = [&] { return with_condition ? parse_expression() : parse_or(); };
    ExprPtr first = parse_item();
    if (!is_operator(",")) return first;
    ExprPtr tuple = make_expr(ExprKind::kTuple, std::move(first));
    while (skip_operator(",")) {
      if (ends_tuple()) break;
      add_child(*tuple, parse_item());
    }
    return tuple;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (skip_name("or")) left = make_expr(ExprKind::kOr, std::move(left), parse_and());
    return left;
  }

  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (skip_name("and")) left = make_expr(ExprKind::kAnd, std::move(left), parse_not());
    return left;
  }

  ExprPtr parse_not() {
    if (!is_name("not")) return parse_compare();
    const Nesting nesting(*this);
    next();
    return make_expr(ExprKind::kNot, parse_not());
  }

  std::optional<CompareOp> skip_compare() {
    constexpr std::pair<std::string_view, CompareOp> kOps[] = {{"==", CompareOp::kEqual},
                                                               {"!=", CompareOp::kNotEqual},
                                                               {"<", CompareOp::kLess},
                                                               {"<=", CompareOp::kLessEqual},
                                                               {">", CompareOp::kGreater},
                                                               {">=", CompareOp::kGreaterEqual}};
    for (const auto& [text, op] : kOps) {
      if (skip_operator(text)) return op;
    }
    if (skip_name("in")) return CompareOp::kIn;
    if (is_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
      next();
      next();
      return CompareOp::kNotIn;
    }
    return std::nullopt;
  }

  ExprPtr parse_compare() {
    ExprPtr left = parse_sum();
    auto op = skip_compare();
    if (!op) return left;
    ExprPtr compare = make_expr(ExprKind::kCompare, std::move(left));
    for (; op; op = skip_compare()) {
      compare->compare_ops.push_back(*op);
      add_child(*compare, parse_sum());
    }
    return compare;
  }

  ExprPtr make_binary(Op op, ExprPtr left, ExprPtr right) const {
    ExprPtr expr = make_expr(ExprKind::kBinary, std::move(left), std::move(right));
    expr->op = op;
    return expr;
  }

  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (is_operator("+") || is_operator("-")) {
      const Op op = next().text == "+" ? Op::kAdd : Op::kSubtract;
      left = make_binary(op, std::move(left), parse_concat());
    }
    return left;
  }

  ExprPtr parse_concat() {
    ExprPtr first = parse_product();
    if (!is_operator("~")) return first;
    ExprPtr concat = make_expr(ExprKind::kConcat, std::move(first));
    while (skip_operator("~")) add_child(*concat, parse_product());
    return concat;
  }

  ExprPtr parse_product() {
    constexpr std::pair<std::string_view, Op> kOps[] = {
        {"*", Op::kMultiply}, {"/", Op::kDivide}, {"//", Op::kFloorDivide}, {"%", Op::kModulo}};
    ExprPtr left = parse_power();
    while (true) {
      const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [this](const auto& known) {
        return is_operator(known.first);
      });
      if (op == std::end(kOps)) return left;
      next();
      left = make_binary(op->second, std::move(left), parse_power());
    }
  }

  ExprPtr parse_power() {
    ExprPtr left = parse_unary(true);
    while (skip_operator("**")) left = make_binary(Op::kPower, std::move(left), parse_unary(true));
    return left;
  }

  ExprPtr parse_unary(bool with_filter) {
    const Nesting nesting(*this);
    ExprPtr expr;
    if (is_operator("-") || is_operator("+")) {
      const Op op = next().text == "-" ? Op::kMinus : Op::kPlus;
      expr = make_expr(ExprKind::kUnary, parse_unary(false));
      expr->op = op;
    } else {
      expr = parse_postfix(parse_primary());
    }
    while (with_filter) {
      if (is_operator("|")) {
        expr = parse_filter(std::move(expr));
      } else if (is_name("is")) {
        expr = parse_test(std::move(expr));
      } else if (is_operator("(")) {
        expr = parse_call(std::move(expr));
      } else {
        break;
      }
    }
    return expr;
  }

  ExprPtr parse_primary() {
    switch (current().kind) {
      case TokenKind::kName:
        return parse_name();
      case TokenKind::kString: {
        std::string text;
        while (current().kind == TokenKind::kString) text += next().text;
        return make_constant(Value(make_text(std::move(text))));
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return parse_number();
      default:
        break;
    }
    if (skip_operator("(")) return parse_parenthesis();
    if (skip_operator("[")) return parse_list();
    if (skip_operator("{")) return parse_dict();
    fail_here("expected an expression, found " + describe(current()));
  }

  ExprPtr parse_name() {
    const std::string name = next().text;
    if (name == "true" || name == "True") return make_constant(Value(true));
    if (name == "false" || name == "False") return make_constant(Value(false));
    if (name == "none" || name == "None") return make_constant(Value::none());
    saw_varargs_ = saw_varargs_ || name == "varargs";
    saw_kwargs_ = saw_kwargs_ || name == "kwargs";
    ExprPtr expr = make_expr(ExprKind::kName);
    expr->symbol = intern(name);
    return expr;
  }

  ExprPtr parse_number() {
    const Token token = next();
    const char* begin = token.text.data();
    const char* end = begin + token.text.size();
    if (token.kind == TokenKind::kInteger) {
      uint64_t number = 0;
      if (std::from_chars(begin, end, number).ec != std::errc()) {
        fail_here("integer " + token.text + " is too large");
      }
      return make_constant(Value::big(number));
    }
    double number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc()) {
      fail_here("number " + token.text + " is out of range");
    }
    return make_constant(Value(number));
  }

  ExprPtr parse_parenthesis() {
    if (skip_operator(")")) return make_expr(ExprKind::kTuple);
    ExprPtr expr = parse_tuple(true);
    expect_operator(")");
    return expr;
  }

  ExprPtr parse_list() {
    ExprPtr list = make_expr(ExprKind::kList);
    while (!skip_operator("]")) {
      if (!list->children.empty()) expect_operator(",");
      if (skip_operator("]")) break;
      add_child(*list, parse_expression());
    }
    return list;
  }

  ExprPtr parse_dict() {
    ExprPtr dict = make_expr(ExprKind::kDict);
    while (!skip_operator("}")) {
      if (!dict->children.empty()) expect_operator(",");
      if (skip_operator("}")) break;
      add_child(*dict, parse_expression());
      expect_operator(":");
      add_child(*dict, parse_expression());
    }
    return dict;
  }

  ExprPtr parse_postfix(ExprPtr expr) {
    while (true) {
      if (skip_operator(".")) {
        if (current().kind == TokenKind::kInteger) {
          expr = make_expr(ExprKind::kElement, std::move(expr), parse_number());
        } else {
          Text name = make_text(expect_name());
          expr = make_expr(ExprKind::kAttribute, std::move(expr));
          expr->text = std::move(name);
        }
      } else if (skip_operator("[")) {
        expr = parse_subscript(std::move(expr));
      } else if (is_operator("(")) {
        expr = parse_call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  ExprPtr parse_subscript(ExprPtr object) {
    ExprPtr begin;
    if (!is_operator(":")) begin = parse_expression();
    if (!is_operator(":")) {
      if (is_operator(",")) {
        ExprPtr tuple = make_expr(ExprKind::kTuple, std::move(begin));
        while (skip_operator(",")) add_child(*tuple, parse_expression());
        begin = std::move(tuple);
      }
      expect_operator("]");
      return make_expr(ExprKind::kElement, std::move(object), std::move(begin));
    }
    expect_operator(":");
    ExprPtr end;
    ExprPtr step;
    if (!is_operator(":") && !is_operator("]")) end = parse_expression();
    if (skip_operator(":") && !is_operator("]")) step = parse_expression();
    expect_operator("]");
    return make_expr(
        ExprKind::kSlice, std::move(object), std::move(begin), std::move(end), std::move(step));
  }

  ExprPtr parse_call(ExprPtr callee) {
    ExprPtr call = make_expr(ExprKind::kCall, std::move(callee));
    parse_arguments(*call);
    return call;
  }

  void parse_arguments(Expr& call) {
    expect_operator("(");
    bool is_first = true;
    while (!skip_operator(")")) {
      if (!is_first) expect_operator(",");
      if (skip_operator(")")) return;
      is_first = false;
      if (is_operator("*") || is_operator("**")) fail_here("* and ** in calls are not supported");
      if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator &&
          ahead().text == "=") {
        Text name = make_text(next().text);
        next();
        ExprPtr value = parse_expression();
        call.depth = std::max(call.depth, value->depth + 1);
        check_height(call);
        call.named.emplace_back(std::move(name), std::move(value));
      } else {
        if (!call.named.empty()) fail_here("a positional argument follows a named one");
        add_child(call, parse_expression());
      }
    }
  }

  ExprPtr parse_filter(ExprPtr input) {
    expect_operator("|");
    return parse_filter_call(std::move(input));
  }

  ExprPtr parse_filter_call(ExprPtr input) {
    ExprPtr expr = make_expr(ExprKind::kFilter, std::move(input));
    const std::string name = expect_name();
    expr->text = make_text(name);
    expr->filter = find_filter(name);
    if (is_operator("(")) parse_arguments(*expr);
    return expr;
  }

  bool begins_test_argument() const {
    switch (current().kind) {
      case TokenKind::kName:
        return !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") &&
               !is_name("in") && !is_name("not") && !is_name("is");
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      default:
        return is_operator("[") || is_operator("{");
    }
  }

  ExprPtr parse_test(ExprPtr input) {
    next();
    const bool is_negated = skip_name("not");
    ExprPtr expr = make_expr(ExprKind::kTest, std::move(input));
    const std::string name = expect_name();
    expr->text = make_text(name);
    expr->test = find_test(name);
    if (is_operator("(")) {
      parse_arguments(*expr);
    } else if (begins_test_argument()) {
      add_child(*expr, parse_postfix(parse_primary()));
    }
    return is_negated ? make_expr(ExprKind::kNot, std::move(expr)) : std::move(expr);
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  uint32_t nesting_ = 0;
  uint32_t n_loops_ = 0;
  bool saw_varargs_ = false;  // in the macro that is being read
  bool saw_kwargs_ = false;
  std::vector<Text> symbols_;
  std::unordered_map<std::string, Symbol> symbol_ids_;
};

}  // namespace

Template parse_template(std::string_view source) {
  return Parser(tokenize(source)).run();
}

}  // namespace cairn::jinja
