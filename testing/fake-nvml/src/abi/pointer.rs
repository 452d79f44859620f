//! The caller's memory: the only place that reads and writes through C pointers.
//!
//! The functions here are safe to call from the exported functions because NVML's contract, which
//! each client accepts, says of every pointer argument that it is null or points to memory of the
//! declared type (and, for arrays, of the declared length).

use std::ffi::{CStr, c_char, c_uint};
use std::ptr;

use super::Answer;
use super::code::Code;

/// An out-parameter of an exported function.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Reads a parameter that goes both ways, such as the version of a struct or the room in an array.
    pub(super) fn get(self) -> Result<T, Code> {
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: not null, so by NVML's contract it points to an initialised T.
        Ok(unsafe { self.0.read() })
    }

    pub(super) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: not null, so by NVML's contract it points to writable memory for a T.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes a whole array for which the caller has `room` elements.
    pub(super) fn set_all(self, room: c_uint, values: &[T]) -> Answer {
        if values.is_empty() {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        if values.len() > room as usize {
            return Err(Code::InsufficientSize);
        }
        // SAFETY: not null, so by NVML's contract it points to room for at least `values.len()`
        // elements; `values` is memory of ours and cannot overlap the caller's.
        unsafe { ptr::copy_nonoverlapping(values.as_ptr(), self.0, values.len()) };
        Ok(())
    }

    /// The same memory seen as its first field; NVML's versioned structs begin with the version.
    pub(super) fn first_field<F: Copy>(self) -> Out<F> {
        Out(self.0.cast())
    }
}

impl Out<c_char> {
    /// Writes a text and its final zero into a buffer of `room` bytes.
    pub(super) fn set_text(self, room: c_uint, text: &str) -> Answer {
        let bytes: Vec<c_char> = text
            .bytes()
            .chain([0])
            .map(|byte| c_char::from_ne_bytes([byte]))
            .collect();
        self.set_all(room, &bytes)
    }
}

/// The array of characters in a C struct, cut to its length less the final zero.
pub(super) fn fixed_text<const LENGTH: usize>(text: &str) -> [c_char; LENGTH] {
    let mut array = [0; LENGTH];
    let room = LENGTH.saturating_sub(1);
    for (slot, byte) in array.iter_mut().zip(text.bytes().take(room)) {
        *slot = c_char::from_ne_bytes([byte]);
    }
    array
}

/// A text argument, copied.
pub(super) fn text(pointer: *const c_char) -> Result<String, Code> {
    if pointer.is_null() {
        return Err(Code::InvalidArgument);
    }
    // SAFETY: not null, so by NVML's contract it points to a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| Code::InvalidArgument)
}
