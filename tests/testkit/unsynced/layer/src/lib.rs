//! A library to preload (`LD_PRELOAD`) into a process whose unsynced writes must be lost: its functions replace those
//! of the C library that change or sync files.
//!
//! | variable | |
//! |---|---|
//! | `TRIAD_UNSYNCED_DATA` | the directory whose files are watched, as an absolute path without links |
//! | `TRIAD_UNSYNCED_NOTES` | where notes of replaced bytes are kept; outside of it |
//!
//! It does nothing unless both are set. If it cannot note a change, it ends the process, because without the note the
//! change could not be reverted. Linux on 64 bits only. The code here must not call the functions that it replaces:
//! rustix makes system calls itself.
#![expect(
    unsafe_code,
    reason = "functions of the C library get pointers and are exported by their names"
)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_long, c_uint};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libc::{iovec, mode_t, off_t, size_t, ssize_t};
use rustix::fs::{FileType, OFlags, SeekFrom};
use triad_unsynced::Journal;

struct Layer {
    data: PathBuf,
    journal: Journal,
}

fn layer() -> Option<&'static Layer> {
    static LAYER: OnceLock<Option<Layer>> = OnceLock::new();
    let layer = LAYER.get_or_init(|| {
        let said = |name| std::env::var_os(name).map(PathBuf::from);
        let (data, notes) = (said("TRIAD_UNSYNCED_DATA")?, said("TRIAD_UNSYNCED_NOTES")?);
        let journal = Journal::new(notes);
        Some(Layer { data, journal })
    });
    layer.as_ref()
}

/// The layer and the file; `None` if the file is not watched.
fn followed(fd: c_int) -> Option<(&'static Layer, BorrowedFd<'static>)> {
    let layer = layer()?;
    if fd < 0 {
        return None;
    }
    let path = rustix::fs::readlink(format!("/proc/self/fd/{fd}"), Vec::new()).ok()?;
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    if !path.starts_with(&layer.data) {
        return None;
    }
    // SAFETY: the caller's file is open, because it has a path; it stays open during the call.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then_some((layer, file))
}

/// Returns the result of a noted change. Ends the process if there is no note.
fn noted<T>(done: rustix::io::Result<T>) -> T {
    done.unwrap_or_else(|_| std::process::abort())
}

fn length(file: BorrowedFd<'_>) -> u64 {
    noted(rustix::fs::fstat(file)).st_size.cast_unsigned()
}

/// Notes and carries out a write of `count` bytes at `at`, or at the file's position if `None`.
fn write_noted(
    fd: c_int,
    at: Option<off_t>,
    count: size_t,
    real: impl FnOnce() -> c_long,
) -> ssize_t {
    let Some((layer, file)) = followed(fd) else {
        return real() as ssize_t;
    };
    let appends = rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::APPEND));
    let from = match at {
        Some(at) => at.cast_unsigned(),
        None if appends => length(file),
        None => noted(rustix::fs::seek(file, SeekFrom::Current(0))),
    };
    let to = from.saturating_add(count as u64);
    noted(layer.journal.change(file, from, to, real)) as ssize_t
}

fn sync_noted(fd: c_int, real: impl FnOnce() -> c_long) -> c_int {
    match followed(fd) {
        Some((layer, file)) => noted(layer.journal.sync(file, real, |code| *code == 0)) as c_int,
        None => real() as c_int,
    }
}

/// Notes and carries out a change of a file's length.
fn resize_noted(fd: c_int, to: off_t, real: impl FnOnce() -> c_long) -> c_int {
    let Some((layer, file)) = followed(fd) else {
        return real() as c_int;
    };
    let (was, to) = (length(file), to.cast_unsigned());
    noted(layer.journal.change(file, was.min(to), was.max(to), real)) as c_int
}

/// Opens a file. If it is to be truncated, that is done after opening, as a separate change that can be noted.
fn open_noted(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let open = |flags: c_int| {
        // SAFETY: the path comes from the caller, and is passed on.
        let fd = unsafe { libc::syscall(libc::SYS_openat, directory, path, flags, mode) };
        fd as c_int
    };
    if layer().is_none() || flags & libc::O_TRUNC == 0 {
        return open(flags);
    }
    let fd = open(flags & !libc::O_TRUNC);
    // SAFETY: a system call whose arguments are only numbers.
    let empty = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, 0) };
    if fd >= 0 {
        // Only a regular file can be truncated.
        resize_noted(fd, 0, empty);
    }
    fd
}

/// Drops the notes of a file whose name is about to be removed.
fn forget(path: *const c_char) {
    if let Some(layer) = layer() {
        // SAFETY: the path comes from the caller.
        let path = unsafe { CStr::from_ptr(path) };
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        noted(layer.journal.forget(path));
    }
}

/// Total number of bytes in a list of buffers.
///
/// # Safety
/// As for `writev`.
unsafe fn total(buffers: *const iovec, count: c_int) -> size_t {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the list comes from the caller and has this length.
    let buffers = unsafe { std::slice::from_raw_parts(buffers, count) };
    buffers.iter().map(|buffer| buffer.iov_len).sum()
}

/// `open(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_noted(libc::AT_FDCWD, path, flags, mode)
}

/// `open(2)` with 64-bit offsets.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_noted(libc::AT_FDCWD, path, flags, mode)
}

/// `openat(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    open_noted(directory, path, flags, mode)
}

/// `openat(2)` with 64-bit offsets.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    open_noted(directory, path, flags, mode)
}

/// `write(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const u8, count: size_t) -> ssize_t {
    write_noted(fd, None, count, || {
        // SAFETY: the buffer comes from the caller, and is passed on.
        unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) }
    })
}

/// `writev(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the list comes from the caller.
    let bytes = unsafe { total(buffers, count) };
    write_noted(fd, None, bytes, || {
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_writev, fd, buffers, count) }
    })
}

/// `pwrite(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, bytes: *const u8, count: size_t, at: off_t) -> ssize_t {
    write_noted(fd, Some(at), count, || {
        // SAFETY: the buffer comes from the caller, and is passed on.
        unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, at) }
    })
}

/// `pwrite(2)` with 64-bit offsets.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    bytes: *const u8,
    count: size_t,
    at: off_t,
) -> ssize_t {
    // SAFETY: the same arguments.
    unsafe { pwrite(fd, bytes, count, at) }
}

/// `pwritev(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    // SAFETY: the list comes from the caller.
    let bytes = unsafe { total(buffers, count) };
    write_noted(fd, Some(at), bytes, || {
        // SAFETY: as above; on 64 bits the high half of the offset is ignored.
        unsafe { libc::syscall(libc::SYS_pwritev, fd, buffers, count, at, 0) }
    })
}

/// `pwritev(2)` with 64-bit offsets.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    // SAFETY: the same arguments.
    unsafe { pwritev(fd, buffers, count, at) }
}

/// `ftruncate(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate(fd: c_int, to: off_t) -> c_int {
    // SAFETY: a system call whose arguments are only numbers.
    resize_noted(fd, to, || unsafe {
        libc::syscall(libc::SYS_ftruncate, fd, to)
    })
}

/// `ftruncate(2)` with 64-bit offsets.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, to: off_t) -> c_int {
    // SAFETY: the same arguments.
    unsafe { ftruncate(fd, to) }
}

/// `fsync(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: a system call whose argument is only a number.
    sync_noted(fd, || unsafe { libc::syscall(libc::SYS_fsync, fd) })
}

/// `fdatasync(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: a system call whose argument is only a number.
    sync_noted(fd, || unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}

/// `unlink(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    forget(path);
    // SAFETY: the path comes from the caller, and is passed on.
    let code = unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0 as c_uint) };
    code as c_int
}

/// `rename(2)`; a file that had the new name before loses it.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    forget(to);
    let here = libc::AT_FDCWD;
    // SAFETY: the paths come from the caller, and are passed on.
    let code = unsafe { libc::syscall(libc::SYS_renameat2, here, from, here, to, 0 as c_uint) };
    code as c_int
}
