// A client's messages, checked and brought into the shape that chat templates expect.
#pragma once

#include "api/json_fields.h"
#include "base/json_fwd.h"

namespace cairn {

// Text parts become one string, "developer" becomes "system", tool-call arguments that are JSON
// text become objects (most templates print them as JSON; a string would be quoted twice). Unknown
// roles and parts that are not text are faults.
void read_messages(JsonFields& fields, Json* out);

// "tools" and "tool_choice". `out` is null when there are none or the choice is "none". Choices
// that promise a call (required, a named function) are refused: they need structured output.
void read_tools(JsonFields& fields, Json* out);

}  // namespace cairn
