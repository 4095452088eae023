//! Memory pages of a long-running process.

/// On Linux, disables huge pages of memory (2 MiB) for this process, from now on. Elsewhere it does nothing.
///
/// The allocator requests huge pages, and a thread's few small objects then keep a whole one: a third of the memory
/// of `triad serve`, without more orders a second. If the system refuses, the log says so (level debug), and the
/// process continues with huge pages.
pub fn usual_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages cannot be left out");
    }
}
