//! How the pages of a long-running process are had from the system.

/// Has this process use pages of the usual size alone from now on, on Linux; elsewhere it does nothing.
///
/// The allocator asks for huge pages (2 MiB), and a thread's few small objects then keep a whole one: a third of the
/// memory of `triad serve`, for no more orders a second. Where the system refuses, nothing but that is lost.
pub fn usual_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages cannot be left out");
    }
}
