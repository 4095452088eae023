//! How the pages of a long-running process are had from the system.

/// On Linux, turns huge pages of memory (2 MiB) off for this process, from now on. Elsewhere it does nothing.
///
/// The allocator asks for huge pages, and a thread's few small objects then keep a whole one: a third of the
/// memory of `triad serve`, for no more orders a second. If the system refuses, a line of the log says so
/// (level debug), and the process goes on with huge pages.
pub fn usual_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages cannot be left out");
    }
}
