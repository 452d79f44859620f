//! The code and reason of an answer, by which programs decide.

/// The reason is empty unless the answer is a Status that has one.
pub type Verdict = (u16, &'static str);

pub const DONE: Verdict = (200, "");
pub const CREATED: Verdict = (201, "");
pub const BAD_REQUEST: Verdict = (400, "BadRequest");
pub const FORBIDDEN: Verdict = (403, "Forbidden");
pub const NOT_FOUND: Verdict = (404, "NotFound");
pub const NOT_ALLOWED: Verdict = (405, "MethodNotAllowed");
pub const ALREADY_EXISTS: Verdict = (409, "AlreadyExists");
pub const CONFLICT: Verdict = (409, "Conflict");
pub const INVALID: Verdict = (422, "Invalid");

/// The answer of an API server to input that it does not expect.
pub const UNFORESEEN: Verdict = (500, "");
