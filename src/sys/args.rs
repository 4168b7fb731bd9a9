//! The argument and environment vectors on the process's initial stack.

use core::ffi::{CStr, c_char};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Room for a pointer of a [`Vector`].
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Pointer(*const c_char);

impl Pointer {
    /// No string.
    pub const NULL: Self = Pointer(core::ptr::null());
}

/// A NULL-terminated vector of C strings: `argv` or `envp` (`execve(2)`).
pub struct Vector<'a> {
    first: NonNull<*const c_char>,
    _strings: PhantomData<&'a [&'a CStr]>,
}

impl<'a> Vector<'a> {
    /// Wraps `argv` or `envp`.
    ///
    /// # Safety
    ///
    /// `first` must point to a NULL-terminated array of pointers to C strings, writable, which nothing
    /// else uses for `'a`.
    pub const unsafe fn new(first: NonNull<*const c_char>) -> Self {
        Vector {
            first,
            _strings: PhantomData,
        }
    }

    /// Makes a vector of `strings` in `space`, which has room for one more. `None`: it has not.
    pub fn of(strings: &'a [&'a CStr], space: &'a mut [Pointer]) -> Option<Self> {
        let (last, pointers) = space.get_mut(..=strings.len())?.split_last_mut()?;
        for (pointer, string) in pointers.iter_mut().zip(strings) {
            *pointer = Pointer(string.as_ptr());
        }
        *last = Pointer::NULL;
        let first = NonNull::new(space.as_mut_ptr())?.cast();
        // SAFETY: the pointers before the NULL are those of `strings`, and both live for `'a`, in which nobody
        // else has `space`. A `Pointer` is a pointer (`repr(transparent)`).
        Some(unsafe { Vector::new(first) })
    }

    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a CStr> + '_ {
        // Fused: after the NULL nothing is looked at any more.
        (0..).map_while(|index| self.get(index)).fuse()
    }

    /// The string at `index`; indices up to the first `None` may be asked for.
    fn get(&self, index: usize) -> Option<&'a CStr> {
        // SAFETY: `new` promises a NULL-terminated array, and the callers stop at its NULL, so `index` is
        // within it; a pointer before the NULL is a C string that lives for `'a`.
        unsafe {
            let string = *self.first.as_ptr().add(index);
            if string.is_null() {
                None
            } else {
                Some(CStr::from_ptr(string))
            }
        }
    }

    /// The vector from `index` on, which must not be past its end.
    pub fn skip(self, index: usize) -> Option<Self> {
        if self.iter().count() < index {
            return None;
        }
        // SAFETY: `index` is at most that of the terminating NULL, so the rest is a vector too.
        Some(unsafe { Vector::new(self.first.add(index)) })
    }

    /// Removes every string for which `remove` says so; the others keep their order.
    pub fn remove(&mut self, remove: impl Fn(&CStr) -> bool) {
        let mut kept = 0;
        let mut index = 0;
        while let Some(string) = self.get(index) {
            index += 1;
            if remove(string) {
                continue;
            }
            // SAFETY: `kept` < `index`, which is within the array, writable by `new`'s promise.
            unsafe { *self.first.as_ptr().add(kept) = string.as_ptr() };
            kept += 1;
        }
        // SAFETY: `kept` is at most the index of the old NULL.
        unsafe { *self.first.as_ptr().add(kept) = core::ptr::null() };
    }

    /// The address, for `execve(2)`.
    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.first.as_ptr()
    }
}
