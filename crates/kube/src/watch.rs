//! Watches: objects as they change, one synchronous callback each.
