//! The notes of a writing process.
//!
//! The notes of a file have generations. A sync covers only what was written before it began, so with a sync a new
//! generation begins, and when the sync has succeeded, the earlier ones are dropped. The code here does not call the
//! C library's functions for files, which the preloaded library replaces: rustix makes system calls itself.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Dir, Mode, OFlags, fstat, open, unlink};
use rustix::io::{Errno, Result, pread, pwrite};

use crate::before_image::{BeforeImage, FileId};

/// Keeps in files what the writes of one process replace. A process must have only one journal. Notes that an earlier
/// process has left in the same directory still count.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    files: Mutex<HashMap<FileId, Arc<JournalFile>>>,
}

/// A file to which the process writes.
#[derive(Debug)]
struct JournalFile {
    id: FileId,
    /// A second descriptor for reading, because the process may have opened the file only for writing.
    readable: OwnedFd,
    writing: Mutex<Writing>,
    syncing: Mutex<()>,
}

#[derive(Debug)]
struct Writing {
    generation: u64,
    /// The file with the notes of this generation, and its length; `None` before the first note.
    notes: Option<(OwnedFd, u64)>,
}

/// Locks a mutex, also a poisoned one: it protects a number and a file, which a panic does not leave half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The existing bytes of a range.
fn read(file: impl AsFd, from: u64, to: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match pread(file.as_fd(), &mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

impl Journal {
    /// A journal that keeps its notes in `directory`, which must exist. Nothing is read or written yet.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            files: Mutex::default(),
        }
    }

    /// Notes the bytes of an open file from `from` up to but not including `to`. Then calls `change`, which changes
    /// them, and returns its result. To truncate a file, pass its new length as `from` and its old one as `to`.
    ///
    /// # Errors
    /// The error of the operating system if nothing could be noted; `change` is not called then.
    pub fn change<T>(
        &self,
        file: BorrowedFd<'_>,
        from: u64,
        to: u64,
        change: impl FnOnce() -> T,
    ) -> Result<T> {
        let noted = self.noted(file)?;
        let mut writing = locked(&noted.writing);
        let length = fstat(file)?.st_size.cast_unsigned();
        let note = BeforeImage {
            offset: from,
            end: to,
            length,
            bytes: read(&noted.readable, from, to.min(length))?,
        };
        writing.add(&note, &self.directory, noted.id)?;
        Ok(change())
    }

    /// Calls `sync`, which syncs an open file, and returns its result. If the sync has succeeded, as `is_done`
    /// determines from that result, drops the notes of what was written before the call.
    ///
    /// # Errors
    /// The error of the operating system if the file cannot be inspected (`sync` is not called then), or if the notes
    /// cannot be dropped, in which case they would revert durable writes.
    pub fn sync<T>(
        &self,
        file: BorrowedFd<'_>,
        sync: impl FnOnce() -> T,
        is_done: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        let noted = self.noted(file)?;
        // One sync at a time: of two concurrent ones, the first to end must not drop notes of writes after the other
        // began.
        let _one = locked(&noted.syncing);
        let before = {
            let mut writing = locked(&noted.writing);
            writing.notes = None;
            writing.generation += 1;
            writing.generation
        };
        let synced = sync();
        if is_done(&synced) {
            self.drop_notes(noted.id, before)?;
        }
        Ok(synced)
    }

    /// Drops the notes of the file at `path`, whose last name is about to be removed: another file may then get its
    /// inode number. Does nothing if there is no such file.
    ///
    /// # Errors
    /// The error of the operating system if the notes cannot be dropped.
    pub fn forget(&self, path: &Path) -> Result<()> {
        let Ok(stat) = rustix::fs::lstat(path) else {
            return Ok(());
        };
        let id = FileId::of(&stat);
        locked(&self.files).remove(&id);
        self.drop_notes(id, u64::MAX)
    }

    fn noted(&self, file: BorrowedFd<'_>) -> Result<Arc<JournalFile>> {
        let id = FileId::of(&fstat(file)?);
        let mut files = locked(&self.files);
        if let Some(noted) = files.get(&id) {
            return Ok(Arc::clone(noted));
        }
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let readable = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let last = self.generations(id)?.into_iter().max();
        let noted = Arc::new(JournalFile {
            id,
            readable,
            writing: Mutex::new(Writing {
                generation: last.map_or(0, |last| last + 1),
                notes: None,
            }),
            syncing: Mutex::default(),
        });
        files.insert(id, Arc::clone(&noted));
        Ok(noted)
    }

    /// The generations for which a file has notes.
    fn generations(&self, of: FileId) -> Result<Vec<u64>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut found = Vec::new();
        for entry in Dir::new(open(&self.directory, flags, Mode::empty())?)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if let Some((id, generation)) = FileId::of_name(name)
                && id == of
            {
                found.push(generation);
            }
        }
        Ok(found)
    }

    fn drop_notes(&self, id: FileId, before: u64) -> Result<()> {
        for generation in self.generations(id)? {
            if generation < before {
                unlink(self.directory.join(id.name(generation)))?;
            }
        }
        Ok(())
    }
}

impl Writing {
    fn add(&mut self, note: &BeforeImage, directory: &Path, id: FileId) -> Result<()> {
        let (notes, length) = match &mut self.notes {
            Some(notes) => notes,
            empty => {
                let path = directory.join(id.name(self.generation));
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                empty.insert((open(path, flags, Mode::RUSR | Mode::WUSR)?, 0))
            }
        };
        let form = note.encoded();
        let mut written = 0;
        while written < form.len() {
            match pwrite(&*notes, &form[written..], *length + written as u64) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        *length += form.len() as u64;
        Ok(())
    }
}
