// The tree of a parsed template. Built by the parser, read by the interpreter, never changed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace cairn::jinja {

// Names are numbered when parsing, so that scopes compare numbers.
using Symbol = uint32_t;

class Runtime;
struct Arguments;

using FilterFunction = Value (*)(Runtime&, const Value& input, const Arguments&);
using TestFunction = bool (*)(Runtime&, const Value& input, const Arguments&);

enum class ExprKind : uint8_t {
  kConstant,
  kName,       // symbol
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value, ...
  kAttribute,  // children[0].text
  kElement,    // children[0][children[1]]
  kSlice,      // children[0][children[1]:children[2]:children[3]], absent ones null
  kCall,       // children[0](children[1..], named)
  kFilter,     // children[0] | text(children[1..], named)
  kTest,       // children[0] is text(children[1..], named)
  kUnary,      // op
  kBinary,     // op
  kConcat,     // children joined by ~
  kCompare,    // children[0] compare_ops[0] children[1] compare_ops[1] ...
  kAnd,
  kOr,
  kNot,
  kCondition,  // children[0] if children[1] else children[2], which may be null
  kCaptured,   // the body of a filter or set block
};

enum class Op : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kMinus,
  kPlus
};
enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  Op op = Op::kAdd;
  uint32_t line = 0;
  uint32_t depth = 1;  // height of the tree below: bounds recursion over it
  Symbol symbol = 0;
  Value constant;
  Text text;                        // name of an attribute, filter or test
  FilterFunction filter = nullptr;  // null: unknown, an error when it is evaluated
  TestFunction test = nullptr;
  std::vector<ExprPtr> children;
  std::vector<std::pair<Text, ExprPtr>> named;
  std::vector<CompareOp> compare_ops;
};

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,  // also {% generation %}, which only passes its body through
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<Stmt>;

// A name, a tuple of targets, or a field of a namespace.
struct Target {
  enum class Kind : uint8_t { kName, kTuple, kField };
  Kind kind = Kind::kName;
  Symbol symbol = 0;
  Text field;
  std::vector<Target> parts;
};

struct MacroParameter {
  Symbol symbol = 0;
  Text name;
  ExprPtr default_value;  // null: undefined when missing
};

struct Macro {
  Text name;
  std::vector<MacroParameter> parameters;
  std::vector<Stmt> body;
  Symbol caller = 0;  // "caller", "varargs" and "kwargs" inside the body
  Symbol varargs = 0;
  Symbol kwargs = 0;
  bool uses_varargs = false;  // without, more positional arguments than parameters are an error
  bool uses_kwargs = false;   // without, unknown named arguments are
};

struct Branch {
  ExprPtr condition;  // null: else
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  uint32_t line = 0;
  Text text;                     // kText
  ExprPtr expr;                  // printed, iterated over, assigned, called, or a chain of filters
  ExprPtr condition;             // kFor: the filter
  Target target;                 // kFor, kSet, kSetBlock
  Symbol loop = 0;               // kFor: "loop"
  Symbol symbol = 0;             // kMacro
  std::vector<Branch> branches;  // kIf
  Block body;
  Block otherwise;                                // kFor: when there was nothing to iterate over
  std::vector<std::pair<Target, ExprPtr>> bound;  // kWith
  std::shared_ptr<const Macro> macro;             // kMacro, kCallBlock
};

struct Template {
  Block body;
  std::vector<Text> symbols;  // by number
};

}  // namespace cairn::jinja
